# Lifesign on the bed as anybody installs it: one static binary, an image of nothing else, `lifesign install`. Sourced by run.
readonly STATIC_IMAGE=lifesign.local/lifesign:static

# image NAME [PROGRAM]: makes the image that the Dockerfile makes, and imports it.
bed_image() {
  local name=${1:?usage: image NAME [PROGRAM]} program=${2:-} archive=$bed/image.$$.tar
  [ -n "$program" ] || program=$("$here/../deploy/static")
  "$bin/bed" image "$name" "$archive" /usr/local/bin/lifesign "usr/local/bin/lifesign=$program"
  inside ctr -n k8s.io image import "$archive" && rm "$archive"
}

# install_lifesign: builds, installs and waits until it works; sets $static.
install_lifesign() {
  static=${LIFESIGN_BENCH_STATIC:-$("$here/../deploy/static")}
  bed_image "$STATIC_IMAGE" "$static" >/dev/null
  "$static" install --image "$STATIC_IMAGE" | kubectl apply -f - >/dev/null
  local part
  for part in deployment/lifesign-controllers daemonset/lifesign-agent; do
    kubectl rollout status -n lifesign-system "$part" --timeout=180s >/dev/null || fail "$part does not roll out"
  done
}

# moved_pods COUNT: prints pods whose readiness probe is moved; each has a number.
moved_pods() {
  local number
  for number in $(seq "$1"); do
    cat <<YAML
---
apiVersion: v1
kind: Pod
metadata:
  name: moved-$number
  labels: {app: moved, number: "$number"}
  annotations: {lifesign.dev/probes: '{"app": {"readinessProbe": {}}}'}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  containers:
  - name: app
    image: $IMAGE
    imagePullPolicy: Never
    command: [/bin/bed, serve, "8080", "0"]
    readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
YAML
  done
}

# markers COUNT PODS: prints markers, each of one of the pods.
markers() {
  local number
  for number in $(seq "$1"); do
    cat <<YAML
---
apiVersion: apps.kruise.io/v1alpha1
kind: PodProbeMarker
metadata: {name: marker-$number, namespace: default}
spec:
  selector: {matchLabels: {number: "$((number % $2 + 1))"}}
  probes:
  - name: serves
    containerName: app
    podConditionType: example.com/serves-$number
    probe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
    markerPolicy: [{state: Succeeded, labels: {"serves-$number": "true"}}]
YAML
  done
}

# pods_are COUNT SELECTOR: whether so many pods with these labels are ready.
pods_are() {
  [ "$(kubectl get pods -l "$2" -o 'jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}' | grep -cx True)" = "$1" ]
}
all_marked() { [ "$(kubectl get pods -l app=moved -o yaml | grep -c 'serves-[0-9]*: "true"')" = "$1" ]; }

# costs WHAT: what agent and kubelet cost over a minute.
costs() {
  local agent kubelet before after
  agent=$(pid_of '/usr/local/bin/lifesign agent')
  kubelet=$(pid_of 'kubelet ')
  before=("$(ticks "$agent")" "$(ticks "$kubelet")")
  sleep 60
  after=("$(ticks "$agent")" "$(ticks "$kubelet")")
  awk -v what="$1" -v agent=$((after[0] - before[0])) -v kubelet=$((after[1] - before[1])) -v am="$(memory "$(status_files "$agent")")" \
    -v km="$(memory "$(status_files "$kubelet")")" 'BEGIN {
    printf "%s: agent %.2f%% of a core, %s; kubelet %.2f%% of a core, %s\n", what, agent / 60, am, kubelet / 60, km }'
}

# From listen() to ready in the EndpointSlice of kube-controller-manager: moved probes, stock pods beside them, as many runs as $RUNS says.
bench_moved() {
  local stagger run
  echo "=== lifesign agent --cluster, moved readiness probes, period 1 s"
  install_lifesign
  until_true 60 asks_are_judged || fail "the API server does not call the webhook"
  for stagger in 400 100; do
    for run in $(seq "${RUNS:-2}"); do
      echo "--- a pod every $stagger ms, run $run; load $(cut -d' ' -f1 /proc/loadavg)"
      "$bin/bed" moved "$admin" "$IMAGE" /bin/bed 30 '{"periodSeconds": 1}' "$stagger"
      until_true 120 no_pods "$admin" || fail "the pods do not go"
    done
  done
}
# A bad annotation is refused: from then on good ones are heard.
asks_are_judged() {
  kubectl run try --image=none --annotations='lifesign.dev/probes={"try": {"livenessProbe": {}}}' --dry-run=server 2>&1 | grep -q lifesign.dev/probes
}

# What the agent of a node costs beside its kubelet: nothing to do, 50 moved probes, and 100 markers besides, all once a second.
bench_cluster-agent() {
  echo "=== lifesign agent --cluster"
  install_lifesign
  sleep 15
  costs "no pods"
  moved_pods 50 | kubectl apply -f - >/dev/null
  until_true 300 pods_are 50 app=moved || fail "50 pods are not ready"
  sleep 15
  costs "50 moved probes"
  markers 100 50 | kubectl apply -f - >/dev/null
  until_true 120 all_marked 100 || fail "not everything is marked"
  sleep 15
  costs "50 moved probes and 100 markers"
}
