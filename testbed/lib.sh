# Shared by run and node: versions, where things are, and how the machine is asked. Sourced, never run.
readonly KUBERNETES=v1.36.4 NODE=bed PROGRAMS="kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubectl kubelet"
# The image of every program and test: busybox, and `bed` for etcd and the pause container.
readonly IMAGE=bed.local/base:1

fail() { printf 'testbed: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# The cgroup hierarchies of this machine: one line each, "FOLDER OPTIONS".
hierarchies() { awk '$3 == "cgroup" { split($4, o, ","); name = ""; for (i in o) if (o[i] !~ /^(rw|ro|relatime|nosuid|nodev|noexec|clone_children|xattr|release_agent=.*)$/) name = name (name == "" ? "" : ",") o[i]; print $2, name }' /proc/self/mounts; }

# until_true SECONDS COMMAND...: runs COMMAND until it succeeds; fails when the time is over.
until_true() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || return 1
    sleep 0.1
  done
}
