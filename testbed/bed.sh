# The life of a bed: start, stop, and what one asks of a running one. Sourced by run.
#
# Everything of a bed is below one folder, in one cgroup per hierarchy, in one set of namespaces, and behind one link of the
# machine, all named by its id: so `stop` finds it without any memory of how far `start` came.
. "$here/layout.sh"
. "$here/lifesign.sh"
readonly cgroup=lifesign-testbed-$id link=lb$id
# The metric tells whose route it is.
readonly metric=$((1000000 + 16#${id:0:5}))

# Every folder of the machine's cgroups that is ours.
cgroups() {
  local folder
  { hierarchies | cut -d' ' -f1; [ ! -e /sys/fs/cgroup/cgroup.procs ] || echo /sys/fs/cgroup; } | while read -r folder; do
    [ ! -d "$folder/$cgroup" ] || find "$folder/$cgroup" -depth -type d
  done
}

# Every process of the bed.
processes() { cgroups | while read -r folder; do cat "$folder/cgroup.procs" 2>/dev/null || true; done | sort -un; }

init_pid() { [ -r "$bed/pid" ] && [ -d "/proc/$(cat "$bed/pid")" ] && cat "$bed/pid"; }

running() { [ -n "$(processes)" ]; }

# inside COMMAND...: runs a command in the node.
inside() {
  local pid
  pid=$(init_pid) || fail "the bed is not running: $here/run start"
  nsenter --target "$pid" --mount --uts --ipc --net --pid --cgroup -- env "PATH=/run/bin:$PATH" "$@"
}

kubectl() { "$bin/kubectl" --kubeconfig "$bed/etc/kubernetes/admin.conf" "$@"; }

needs() {
  [ "$(id -u)" = 0 ] || fail "root is needed: namespaces, cgroups and a bridge are made"
  local program missing=()
  for program in containerd ctr runc iptables ip busybox nsenter unshare; do has "$program" || missing+=("$program"); done
  [ -x /usr/lib/cni/bridge ] || missing+=(/usr/lib/cni/bridge)
  [ ${#missing[@]} = 0 ] || fail "missing: ${missing[*]}
On Debian: apt-get install containerd runc containernetworking-plugins busybox-static iptables iproute2 util-linux"
  [ -d "$bin" ] || fail "not built: $here/run build"
}

# Takes a network that no other bed of this machine has: a route that refuses it is the claim, and keeps stray packets here.
claim_network() {
  local number
  exec 9>"$cache/networks.lock"
  flock 9
  for number in $(seq 64 127); do
    [ -z "$(ip route show root "10.$number.0.0/16")" ] || continue
    ip route add unreachable "10.$number.0.0/16" metric "$metric"
    cat >"$bed/settings" <<SETTINGS
NETWORK=10.$number.0.0/24 NODE_IP=10.$number.0.1 HOST_IP=10.$number.0.254 SERVICES=10.$number.1.0/24 FIRST_SERVICE=10.$number.1.1
SETTINGS
    exec 9>&-
    . "$bed/settings"
    return
  done
  fail "all networks from 10.64 to 10.127 are in use"
}

# Moves this shell into the bed's cgroups.
enter_cgroups() {
  local folder
  while read -r folder _; do
    mkdir -p "$folder/$cgroup"
    # A new cpuset has no cores.
    [ ! -e "$folder/cpuset.cpus" ] || for file in cpuset.cpus cpuset.mems; do cat "$folder/$file" >"$folder/$cgroup/$file"; done
    # The bed is a machine of its own: with the share of one thread it would starve beside the tests.
    [ ! -e "$folder/cpu.shares" ] || echo $(($(nproc) * 1024)) >"$folder/$cgroup/cpu.shares"
    echo $BASHPID >"$folder/$cgroup/cgroup.procs"
  done < <(hierarchies)
  if [ -e /sys/fs/cgroup/cgroup.procs ]; then
    # Version 2: processes only in leaves.
    mkdir -p "/sys/fs/cgroup/$cgroup/init"
    echo $BASHPID >"/sys/fs/cgroup/$cgroup/init/cgroup.procs"
    sed 's/\([a-z][a-z]*\)/+\1/g' "/sys/fs/cgroup/$cgroup/cgroup.controllers" >"/sys/fs/cgroup/$cgroup/cgroup.subtree_control"
  fi
}

# write_layout CONFIG_DIR DURABLE
write_layout() {
  "$bin/bed" certs "$bed/etc/kubernetes" "$NODE" "$NODE_IP" "$FIRST_SERVICE"
  write_units "$1"
  write_manifests '*,bootstrap-signer-controller,token-cleaner-controller' "$2"
  write_kubelet_config
  write_kube_proxy_config
  write_containerd_config
}

# Prints the files of busybox for an image.
busybox_files() {
  local applet
  echo "bin/busybox=$(command -v busybox)"
  for applet in $(busybox --list); do [ "$applet" = busybox ] || echo "bin/$applet=@busybox"; done
}

# Makes the image that pods and the control plane use.
base_image() {
  # shellcheck disable=SC2046 # a word each
  "$bin/bed" image "$IMAGE" "$bed/base.tar" "/bin/bed pause" "bin/bed=$bin/bed" $(busybox_files)
}

bed_start() {
  local config_dir= durable= lifesign= option
  for option in "$@"; do
    case $option in
      --plain) ;;
      --config-dir) config_dir=/etc/kubernetes/kubelet.conf.d ;;
      --durable) durable=durable ;;
      --lifesign=*) lifesign=${option#*=} ;;
      *) fail "start: unknown option $option" ;;
    esac
  done
  needs
  ! running || fail "the bed is running already: $here/run status"
  bed_stop >/dev/null
  mkdir -p "$bed"/{etc,var/lib,var/log,run}
  chmod 755 "$bed"
  claim_network
  if [ -n "$lifesign" ]; then write_lifesign_layout "$lifesign"; else write_layout "$config_dir" "$durable"; fi
  base_image
  # In a session of its own, without our files, in its cgroups.
  (
    enter_cgroups
    exec setsid unshare --mount --net --pid --uts --ipc --cgroup --fork --kill-child \
      "$here/node" "$bed" "$bin" "$(hierarchies)" </dev/null >"$bed/var/log/node.log" 2>&1
  ) &
  until_true 60 test -e "$bed/pid" || start_failed "the node did not start"
  ip link add "$link" type veth peer name node0 netns "$(cat "$bed/pid")"
  ip address add "$HOST_IP/24" dev "$link"
  ip link set "$link" up
  ip route add "$SERVICES" via "$NODE_IP" dev "$link" onlink
  until_true 90 inside ctr version || start_failed "containerd does not answer"
  inside ctr -n k8s.io image import "$bed/base.tar" >/dev/null
  rm "$bed/base.tar" && touch "$bed/run/image-imported"
  [ -z "$lifesign" ] || write_lifesign_credentials "$lifesign"
  until_true 240 kubectl get --raw /readyz || start_failed "kube-apiserver is not ready"
  until_true 120 node_ready || start_failed "the node is not Ready"
  until_true 120 kubectl get serviceaccount default || start_failed "kube-controller-manager does not work"
  until_true 90 inside sh -c 'iptables -t nat -S KUBE-SERVICES | grep -q :https' || start_failed "kube-proxy does not work"
  kubeadm_config | kubectl apply -f - >/dev/null
  touch "$bed/started"
  echo "the bed runs Kubernetes $KUBERNETES after $SECONDS s: eval \"\$($here/run env)\""
}

node_ready() { kubectl get node "$NODE" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -qx True; }

start_failed() {
  printf 'testbed: %s after %d s; the last lines of its logs:\n' "$1" "$SECONDS" >&2
  tail -n 8 "$bed"/var/log/*.log >&2 || true
  exit 1
}

bed_stop() {
  local pid deadline=$((SECONDS + 60))
  # The first process takes all others with it.
  if pid=$(init_pid) && processes | grep -qx "$pid"; then kill -KILL "$pid" || true; fi
  while running; do
    [ "$SECONDS" -lt "$deadline" ] || fail "these processes do not end: $(processes | tr '\n' ' ')"
    processes | while read -r pid; do kill -KILL "$pid" 2>/dev/null || true; done
    sleep 0.1
  done
  until_true 20 remove_cgroups || fail "these cgroups cannot be removed: $(cgroups | tr '\n' ' ')"
  # A link whose other end is in a namespace that is going away goes by itself, a moment later.
  ip link delete "$link" 2>/dev/null || true
  local route
  ip route show type unreachable | awk -v m="$metric" '$0 ~ " metric " m "( |$)" { print $2 }' | while read -r route; do
    ip route delete unreachable "$route" metric "$metric"
  done
  # Nothing of the machine is mounted below it: mounts were in the bed's own namespace.
  if grep -q " $bed/" /proc/self/mountinfo; then fail "something is mounted below $bed"; fi
  rm -rf --one-file-system "$bed"
  echo "nothing of the bed is left"
}

remove_cgroups() {
  local folder
  cgroups | while read -r folder; do rmdir "$folder" 2>/dev/null || true; done
  [ -z "$(cgroups)" ]
}

bed_status() {
  running || { echo "the bed is not running"; return 1; }
  echo "folder $bed, $(processes | wc -l) processes"
  kubectl get nodes -o wide
  kubectl get pods --all-namespaces
}

bed_env() {
  [ -e "$bed/started" ] && running || fail "the bed is not running: $here/run start"
  . "$bed/settings"
  cat <<ENV
export LIFESIGN_TEST_KUBECONFIG=$bed/etc/kubernetes/admin.conf KUBECONFIG=$bed/etc/kubernetes/admin.conf
export LIFESIGN_TEST_BED=$here/run LIFESIGN_TEST_NODE=$NODE LIFESIGN_TEST_NODE_IP=$NODE_IP LIFESIGN_TEST_IMAGE=$IMAGE
export LIFESIGN_TEST_CRI=$bed/run/containerd/containerd.sock LIFESIGN_TEST_NODE_ROOT=$bed
export PATH=$bin:\$PATH
ENV
}

bed_exec() { inside "$@"; }

# import NAME PROGRAM...: makes the image NAME of busybox and the programs, in /usr/local/bin, with the libraries that they need;
# a container runs the first one if its pod names no command.
bed_import() {
  [ $# -ge 2 ] || fail "usage: import NAME PROGRAM..."
  local name=$1 archive files program library
  mapfile -t files < <(busybox_files)
  shift
  archive=$bed/image.$$.tar
  for program in "$@"; do
    [ -x "$program" ] || fail "$program: no such program"
    files+=("usr/local/bin/$(basename "$program")=$program")
    for library in $(ldd "$program" 2>/dev/null | grep -o '/[^ ]*'); do files+=("${library#/}=$library"); done
  done
  "$bin/bed" image "$name" "$archive" "/usr/local/bin/$(basename "$1")" "${files[@]}"
  inside ctr -n k8s.io image import "$archive" && rm "$archive"
}

# restart UNIT: ends a unit as its supervisor would, and waits until it runs again.
bed_restart() {
  local unit=${1:?usage: restart kubelet|containerd|kube-proxy} old
  old=$(cat "$bed/run/$unit.pid")
  inside kill -TERM "$old"
  until_true 30 unit_is_new "$unit" "$old" || fail "$unit did not start again"
}
unit_is_new() { [ "$(cat "$bed/run/$1.pid")" != "$2" ]; }

# controllers LIST: gives kube-controller-manager this --controllers and waits until it leads.
bed_controllers() {
  . "$bed/settings"
  write_controller_manager "${1:?usage: controllers LIST}"
  until_true 180 controllers_run "$1" || fail "kube-controller-manager did not start with --controllers=$1"
  # The one before is gone; nobody needs to wait until its Lease runs out.
  kubectl -n kube-system delete lease kube-controller-manager --ignore-not-found >/dev/null
  until_true 60 kubectl -n kube-system get lease kube-controller-manager || fail "kube-controller-manager does not lead"
}
controllers_run() {
  local pod
  pod=$(kubectl -n kube-system get pod "kube-controller-manager-$NODE" -o 'jsonpath={.spec.containers[0].command} {.status.containerStatuses[0].ready}')
  [[ $pod == *"\"--controllers=$1\""*" true" ]]
}
