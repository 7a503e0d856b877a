# The conformance suite of Kubernetes itself, on a plane of `lifesign up`. Sourced by run.

readonly e2e=$cache/$KUBERNETES-e2e

build_e2e() {
  echo "building the end-to-end tests of Kubernetes $KUBERNETES: some minutes"
  # They need a module more than the programs do. What is checked in stays as it is, else all programs would be built again.
  cp "$here/go.mod" "$new/e2e.mod"
  cp "$here/go.sum" "$new/e2e.sum"
  (cd "$here" && CGO_ENABLED=0 go test -c -modfile="$new/e2e.mod" -mod=mod -trimpath -ldflags "-s -w $(version_flags)" \
    -o "$new/e2e.test" k8s.io/kubernetes/test/e2e)
}

# One line per spec, as the suite names it; what follows a tab is why it cannot pass.
conformance_specs() { sed -e '/^#/d' -e '/^$/d' "$here/conformance.txt"; }

# An expression that means these texts and nothing else.
exactly() { sed -e 's/[][\.*^$()+?{}|/]/\\&/g' | paste -sd '|'; }

# suite_conformance [PROGRAM]: the specs of conformance.txt that can pass, on `PROGRAM up`.
suite_conformance() {
  local program=${1:-$here/../target/debug/lifesign} data pid code=0
  [ -x "$program" ] || fail "$program: no such program; cargo build -p lifesign"
  . "$here/build.sh"
  [ -x "$e2e/e2e.test" ] || { rm -rf "$e2e" && into "$e2e" build_e2e; }
  data=$(mktemp -d)
  "$program" up --data-dir "$data/plane" --listen 127.0.0.1:0 --write-kubeconfig "$data/kubeconfig" >"$data/out" 2>"$data/log" &
  pid=$!
  until_true 30 grep -q ready "$data/out" || { cat "$data/log" >&2; fail "lifesign up did not start"; }
  (cd "$data" && "$e2e/e2e.test" --provider=skeleton --kubeconfig="$data/kubeconfig" --kubectl-path="$bin/kubectl" \
    --ginkgo.focus="$(conformance_specs | grep -v $'\t' | exactly)" --ginkgo.no-color --ginkgo.timeout=10m \
    --disable-log-dump --dump-logs-on-failure=false --allowed-not-ready-nodes=-1) >"$data/e2e.log" 2>&1 || code=$?
  grep -E '^Ran |^\s+\[(FAIL|TIMEDOUT|PANICKED|INTERRUPTED)\]' "$data/e2e.log" | sort -u || true
  [ $code = 0 ] || tail -n 200 "$data/e2e.log" >&2
  kill -TERM $pid
  wait $pid || true
  rm -rf "$data"
  return $code
}
