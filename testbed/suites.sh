# What runs on the bed. Sourced by run.

# in_bed COMMAND...: runs a command of the repository with the environment of the bed.
in_bed() {
  eval "$(bed_env)"
  (cd "$here/.." && "$@")
}

# profiles_beside: the tests of latency profiles on a bed of their own. They restart kubelet and control plane again and again, and wait for
# most of their time: so long the others need not wait for them.
profiles_beside() {
  local options=()
  # As the bed is on which the others run.
  [ ! -d "$bed/etc/kubernetes/kubelet.conf.d" ] || options=(--config-dir)
  "$here/run" start "${options[@]}"
  eval "$("$here/run" env)"
  cd "$here/.." && cargo test --workspace --test cluster -- profiles::
}

suite_test() {
  local log=$bed/profiles.log failed=() profiles
  # The whole workspace, so that nothing is built twice.
  in_bed cargo test --workspace --test kubectl --test cluster --no-run
  # What the tests install.
  "$here/../deploy/static" --debug
  # Whatever happens, nothing of the other bed is left behind.
  trap 'LIFESIGN_TESTBED_NAME=$id-profiles "$here/run" stop >/dev/null' EXIT
  LIFESIGN_TESTBED_NAME=$id-profiles profiles_beside >"$log" 2>&1 &
  profiles=$!
  in_bed cargo test --workspace --test kubectl -- 'on a cluster: ' || failed+=(kubectl)
  in_bed cargo test --workspace --test cluster -- --skip profiles:: || failed+=(cluster)
  wait $profiles || failed+=(profiles)
  cat "$log"
  trap - EXIT
  LIFESIGN_TESTBED_NAME=$id-profiles "$here/run" stop
  [ ${#failed[@]} = 0 ] || fail "these tests failed: ${failed[*]}"
  # Last, because it starts beds of its own beside this one.
  "$here/leaves-nothing"
}

# From nothing to nothing, twice, with and without drop-ins of the kubelet.
suite_long() {
  local option
  export LIFESIGN_TEST_LONG=1
  for option in --plain --config-dir; do
    bed_stop
    bed_start "$option"
    touch "$bed/etc/kubernetes/still-the-same-bed"
    suite_test
    bed_restart kubelet
    until_true 60 node_ready || fail "the node is not Ready after a restart of its kubelet"
    [ -e "$bed/etc/kubernetes/still-the-same-bed" ] || fail "a test took the bed away"
    bed_stop
  done
  "$here/run" conformance
  "$here/run" conformance --long
}

# Resident memory of processes, in MB.
memory() { cat "${@/#/\/proc\/}" 2>/dev/null | awk '/^VmRSS:/ { kb += $2 } END { printf "%.0f MB\n", kb / 1024 }'; }
status_files() { local pid; for pid in "$@"; do echo "$pid/status"; done; }
# CPU time of a process so far, in ticks of 10 ms.
ticks() { sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'; }
# pid_of PATTERN: the process of the bed whose command line begins so.
pid_of() {
  local pid
  for pid in $(processes); do
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q "^$1" && { echo "$pid"; return; }
  done || true
  fail "no process $1"
}

# start_lifesign COMMAND: starts `lifesign COMMAND` on new data and waits until it serves; sets $lifesign and $data.
start_lifesign() {
  data=$(mktemp -d)
  serve_lifesign "$1"
}
# serve_lifesign COMMAND: the same on the data of $data.
serve_lifesign() {
  "$program" "$1" --data-dir "$data" >"$data/out" 2>"$data/log" &
  lifesign=$!
  until_true 20 grep -q ready "$data/out" || fail "lifesign $1 did not start: $(cat "$data/log")"
}
stop_lifesign() {
  kill -TERM "$lifesign" 2>/dev/null || true
  wait "$lifesign" || true
  lifesign=
  rm -rf "$data"
}
lifesign=

# cpu_per_attempt PID KUBECONFIG IMAGE PROGRAM: what 100 probes a second cost a process beyond 100 pods without probes.
cpu_per_attempt() {
  local probe used=() pods begun
  for probe in null '{"periodSeconds": 1}'; do
    "$bin/bed" pods "$2" "$3" "$4" 100 "$probe" >"$bed/pods" &
    pods=$!
    until_true 600 grep -q 'all run' "$bed/pods" || fail "100 pods do not run"
    # Until the first statuses are written.
    sleep 15
    begun=$(ticks "$1")
    sleep 30
    used+=($(($(ticks "$1") - begun)))
    kill -TERM $pods
    wait $pods || true
    until_true 300 no_pods "$2" || fail "the pods do not go"
  done
  awk -v idle="${used[0]}" -v busy="${used[1]}" 'BEGIN {
    printf "CPU with 100 pods: %.1f%% of a core, with 100 probes a second: %.1f%%; %.0f us per attempt\n", idle / 30, busy / 30, (busy - idle) * 10000 / 3000 }'
}
no_pods() { [ -z "$("$bin/kubectl" --kubeconfig "$1" get pods -A -l 'app in (web, moved, stock)' -o name)" ]; }

# at_rest PID...: memory and CPU of processes while nobody asks for anything but the controllers.
at_rest() {
  local pid begun=0 used=0 seconds=20
  for pid in "$@"; do begun=$((begun + $(ticks "$pid"))); done
  sleep $seconds
  for pid in "$@"; do used=$((used + $(ticks "$pid"))); done
  echo "at rest, controllers attached: $(memory $(status_files "$@")), $(awk -v t=$((used - begun)) -v s=$seconds 'BEGIN { printf "%.1f", t / s }')% of a core"
}

# since_start PID: how long a process has run, in seconds.
since_start() { sed 's/.*) //' "/proc/$1/stat" | awk -v hz="$(getconf CLK_TCK)" '{ getline up <"/proc/uptime"; split(up, u, " "); printf "%.2f", u[1] - $20 / hz }'; }
is_another() { [ "$(pid_of "$1")" != "$2" ]; }

# restart_kube_apiserver: stops it and waits until its kubelet has started it again; sets $server.
restart_kube_apiserver() {
  kill -TERM "$server"
  until_true 120 is_another kube-apiserver "$server" || fail "kube-apiserver did not start again"
  server=$(pid_of kube-apiserver)
  until_true 120 kubectl get --raw /readyz || fail "kube-apiserver is not ready"
}
restart_lifesign() {
  kill -TERM "$lifesign"
  wait "$lifesign" || true
  serve_lifesign apiserver
}

# some_objects KUBECONFIG RESTART PID...: what so many objects take in memory after a start, by names of variables: a restart changes them.
some_objects() {
  local kubeconfig=$1 restart=$2 name pids=() namespace
  shift 2
  "$bin/bed" load "$kubeconfig" some-objects
  "$restart"
  sleep 5
  for name in "$@"; do pids+=("${!name}"); done
  echo "memory with 10,000 objects after a start: $(memory $(status_files "${pids[@]}"))"
  namespace=$("$bin/kubectl" --kubeconfig "$kubeconfig" get namespaces -o name | grep '/some-')
  "$bin/kubectl" --kubeconfig "$kubeconfig" delete --timeout 5m "$namespace"
}

# The API servers, one after the other on the same machine: the rows of `bed load`, and what they cost.
bench_server() {
  local server etcd controllers
  echo "=== kube-apiserver and etcd"
  server=$(pid_of kube-apiserver) etcd=$(pid_of 'bed etcd')
  at_rest "$server" "$etcd"
  some_objects "$admin" restart_kube_apiserver server etcd
  "$bin/bed" load "$admin"
  echo "memory after it: $(memory $(status_files "$server" "$etcd"))"
  restart_kube_apiserver
  echo "start to ready with these objects: $(since_start "$server") s"
  echo "=== lifesign apiserver"
  start_lifesign apiserver
  "$program" controllers --kubeconfig "$data/kubeconfig" >"$data/controllers.log" 2>&1 &
  controllers=$!
  sleep 5
  at_rest "$lifesign"
  kill -TERM $controllers
  wait $controllers || true
  some_objects "$data/kubeconfig" restart_lifesign lifesign
  "$bin/bed" load "$data/kubeconfig"
  echo "memory after it: $(memory $(status_files "$lifesign"))"
  restart_lifesign
  echo "start to ready with these objects: $(since_start "$lifesign") s"
  stop_lifesign
}

# From listen() to ready: the same pods with the same probes.
bench_ready() {
  local probe
  echo "=== kubelet"
  for probe in '{"periodSeconds": 1}' '{"periodSeconds": 10}'; do "$bin/bed" ready "$admin" "$IMAGE" /bin/bed 30 "$probe"; done
  echo "=== lifesign up"
  start_lifesign up
  for probe in '{"periodSeconds": 1}' '{"periodSeconds": 10}'; do "$bin/bed" ready "$data/kubeconfig" none "$bin/bed" 30 "$probe"; done
  stop_lifesign
}

# What an attempt costs those who make it.
bench_kubelet() {
  echo "=== kubelet"
  cpu_per_attempt "$(pid_of 'kubelet ')" "$admin" "$IMAGE" /bin/bed
}
bench_agent() {
  echo "=== lifesign up"
  start_lifesign up
  cpu_per_attempt "$lifesign" "$data/kubeconfig" none "$bin/bed"
  stop_lifesign
}

# needs_release PART...: whether one of them runs the release build; the others install the static binary.
needs_release() { local part; for part in "$@"; do case $part in cluster-agent | moved) ;; *) return 0 ;; esac; done; return 1; }

# suite_bench [PART...]: all parts, or these. The pods of `up` and of the bed are the same program. LIFESIGN_BENCH_PROGRAM is another
# lifesign than that of this clone.
suite_bench() {
  local part admin=$bed/etc/kubernetes/admin.conf program=${LIFESIGN_BENCH_PROGRAM:-${CARGO_TARGET_DIR:-$here/../target}/release/lifesign}
  [ $# -gt 0 ] || set -- server ready kubelet agent
  for part in "$@"; do declare -F "bench_$part" >/dev/null || fail "no part $part: server, ready, kubelet, agent, cluster-agent, moved"; done
  [ -n "${LIFESIGN_BENCH_PROGRAM:-}" ] || ! needs_release "$@" || (cd "$here/.." && cargo build --release -p lifesign)
  bed_stop
  # Whatever happens, nothing is left behind.
  trap '[ -z "$lifesign" ] || stop_lifesign; bed_stop; uptime' EXIT
  bed_start --durable
  . "$bed/settings"
  date -u +%FT%TZ
  uname -srm
  uptime
  for part in "$@"; do "bench_$part"; done
}
