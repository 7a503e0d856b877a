# The conformance suite of Kubernetes itself, on a plane of `lifesign up`. Sourced by run.
. "$here/build.sh"
readonly e2e=$cache/$KUBERNETES-e2e

build_e2e() {
  echo "building the end-to-end tests of Kubernetes $KUBERNETES: some minutes"
  # They need a module more than the programs do. What is checked in stays as it is, else all programs would be built again.
  cp "$here/go.mod" "$new/e2e.mod"
  cp "$here/go.sum" "$new/e2e.sum"
  (cd "$here" && CGO_ENABLED=0 go test -c -modfile="$new/e2e.mod" -mod=mod -trimpath -ldflags "-s -w $(version_flags)" \
    -o "$new/e2e.test" k8s.io/kubernetes/test/e2e)
}

build_conformance() { [ -x "$e2e/e2e.test" ] || { rm -rf "$e2e" && into "$e2e" build_e2e; }; }

# specs WORD: the specs of conformance.txt that have this word after them, one per line; those that have none: now.
specs() { awk -F '\t' -v word="$1" '/^\[/ && ($2 == word || word == "now" && NF == 1) { print $1 }' "$here/conformance.txt"; }

# An expression that means the texts of stdin and nothing else.
exactly() { sed -e 's/[][\.*^$()+?{}|/]/\\&/g' | paste -sd '|'; }

# run_specs KUBECONFIG FOLDER MINUTES: runs the specs of stdin; fails when one does, or is not there. The log is FOLDER/e2e.log.
run_specs() {
  local wanted code=0
  wanted=$(cat)
  (cd "$2" && "$e2e/e2e.test" --provider=skeleton --kubeconfig="$1" --kubectl-path="$bin/kubectl" --ginkgo.focus="$(exactly <<<"$wanted")" \
    --ginkgo.no-color --ginkgo.timeout="$3m" --disable-log-dump --dump-logs-on-failure=false --allowed-not-ready-nodes=-1) >"$2/e2e.log" 2>&1 || code=$?
  grep -E '^Ran |^\s+\[(FAIL|TIMEDOUT|PANICKED|INTERRUPTED)\]' "$2/e2e.log" | sort -u || true
  [ $code = 0 ] || tail -n 200 "$2/e2e.log" >&2
  grep -q "^Ran $(wc -l <<<"$wanted") of " "$2/e2e.log" || fail "not every spec of conformance.txt was run: a name is wrong"
  return $code
}

# load_for_ever KUBECONFIG: makes changes until it is told to stop. What a run of it says does not end it: it is no test.
load_for_ever() {
  local one=
  trap '[ -z "$one" ] || { kill -TERM "$one"; wait "$one"; } || true; exit 0' TERM
  while true; do
    "$bin/bed" load "$1" creates renewals &
    one=$!
    wait "$one" || sleep 1
  done
}

stop_plane() {
  local pid
  for pid in $load $plane; do kill -TERM "$pid" 2>/dev/null && wait "$pid" || true; done
  rm -rf "$data"
}

# suite_conformance [--long] [PROGRAM]: the specs of conformance.txt that run on `PROGRAM up`; with --long those that take long.
# suite_conformance --components: those that need the controllers of Kubernetes, on the bed that runs.
suite_conformance() {
  local word=now minutes=10 program
  build
  build_conformance
  data=$(mktemp -d) plane= load=
  trap stop_plane EXIT
  if [ "${1:-}" = --components ]; then
    specs components | run_specs "$bed/etc/kubernetes/admin.conf" "$data" $minutes
    return
  fi
  [ "${1:-}" != --long ] || { shift && word=long && minutes=30; }
  program=$(realpath "${1:-${CARGO_TARGET_DIR:-$here/../target}/debug/lifesign}")
  [ -x "$program" ] || fail "$program: no such program; cargo build -p lifesign"
  "$program" up --data-dir "$data/plane" --listen 127.0.0.1:0 --write-kubeconfig "$data/kubeconfig" >"$data/out" 2>"$data/log" &
  plane=$!
  until_true 30 grep -q ready "$data/out" || { cat "$data/log" >&2; fail "lifesign up did not start"; }
  # One of the long ones waits until its state is history: for some minutes and many changes.
  if [ $word = long ]; then
    load_for_ever "$data/kubeconfig" >"$data/load.log" 2>&1 &
    load=$!
  fi
  specs $word | run_specs "$data/kubeconfig" "$data" $minutes && return
  [ $word != long ] || tail -n 50 "$data/load.log" >&2
  fail "the suite failed"
}
