#!/usr/bin/env bash
# Drives Deployments and ReplicaSets through their life on whatever cluster KUBECONFIG leads to, and prints what is there at rest after
# every step, without names and times that nobody chose. Two clusters agree when the outputs are equal:
#
#   KUBECONFIG=real testbed/workloads.sh > real.txt; KUBECONFIG=ours testbed/workloads.sh > ours.txt; diff real.txt ours.txt
#
# IMAGE is what pods are made from where images matter (default: $LIFESIGN_TEST_IMAGE, else busybox:1.36); it needs `sleep`.
set -euo pipefail
image=${IMAGE:-${LIFESIGN_TEST_IMAGE:-busybox:1.36}}
ns=workloads-$$
k() { kubectl -n "$ns" "$@"; }
kubectl create namespace "$ns" >/dev/null
trap 'kubectl delete namespace "$ns" --wait=false >/dev/null' EXIT
until k get serviceaccount default >/dev/null 2>&1; do sleep 0.2; done

# deployment NAME REPLICAS SURGE UNAVAILABLE [STRATEGY]
deployment() {
  local strategy="{\"type\": \"RollingUpdate\", \"rollingUpdate\": {\"maxSurge\": $3, \"maxUnavailable\": $4}}"
  [ "${5:-}" = Recreate ] && strategy='{"type": "Recreate"}'
  k apply -f - >/dev/null <<EOF
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "$1"}, "spec": {
  "replicas": $2, "progressDeadlineSeconds": 8, "revisionHistoryLimit": 2, "selector": {"matchLabels": {"app": "$1"}}, "strategy": $strategy,
  "template": {"metadata": {"labels": {"app": "$1"}}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [
    {"name": "c", "image": "$image", "imagePullPolicy": "IfNotPresent", "command": ["sleep", "3600"]}]}}}}
EOF
}
command_of() { k patch deployment "$1" --type=json -p "[{\"op\": \"replace\", \"path\": \"/spec/template/spec/containers/0/command\", \"value\": $2}]" >/dev/null; }

# Waits until the Deployments say that they have seen everything and the same is seen three times in a row.
rest() {
  local last= same=0 now
  while [ $same -lt 3 ]; do
    now=$(k get deployments,replicasets,pods -o json | grep -v -E '"(resourceVersion|time|lastProbeTime)"' | md5sum)
    if [ "$now" = "$last" ]; then same=$((same + 1)); else same=0; last=$now; fi
    sleep 1
  done
}

# Prints Deployments, ReplicaSets by revision, pods by ReplicaSet, and which events there were.
show() {
  rest
  echo "== $1"
  k get deployments --sort-by=.metadata.name -o go-template='{{range .items}}deployment {{.metadata.name}} generation {{.metadata.generation}}/{{.status.observedGeneration}} replicas {{.spec.replicas}} status {{.status.replicas}} updated {{.status.updatedReplicas}} ready {{.status.readyReplicas}} available {{.status.availableReplicas}} unavailable {{.status.unavailableReplicas}} revision {{index .metadata.annotations "deployment.kubernetes.io/revision"}}{{range .status.conditions}} {{.type}}={{.status}}/{{.reason}}{{end}}{{"\n"}}{{end}}' |
    awk '{n=0; for (i=1; i<=NF; i++) if ($i ~ /=/) c[++n]=$i; else printf "%s ", $i; asort_(c, n); print ""} function asort_(a, n,  i, j, t) {for (i=1; i<=n; i++) for (j=i+1; j<=n; j++) if (a[j] < a[i]) {t=a[i]; a[i]=a[j]; a[j]=t} for (i=1; i<=n; i++) printf "%s ", a[i]}'
  k get replicasets -o go-template='{{range .items}}replicaset of {{index .metadata.labels "app"}} {{with .metadata.annotations}}revision {{index . "deployment.kubernetes.io/revision"}} history {{index . "deployment.kubernetes.io/revision-history"}} desired {{index . "deployment.kubernetes.io/desired-replicas"}} max {{index . "deployment.kubernetes.io/max-replicas"}}{{end}} owned {{len .metadata.ownerReferences}} replicas {{.spec.replicas}} status {{.status.replicas}} labeled {{.status.fullyLabeledReplicas}} ready {{.status.readyReplicas}} available {{.status.availableReplicas}}{{"\n"}}{{end}}' 2>/dev/null | sort
  k get pods -o go-template='{{range .items}}pod of {{index .metadata.labels "app"}} {{.status.phase}} cost {{with .metadata.annotations}}{{index . "controller.kubernetes.io/pod-deletion-cost"}}{{end}}{{"\n"}}{{end}}' | sort | uniq -c
}
events() { k get events -o go-template='{{range .items}}{{.involvedObject.kind}} {{.reason}}{{"\n"}}{{end}}' | grep -E '^(Deployment|ReplicaSet) ' | sort -u; }

deployment web 3 '"25%"' '"25%"';                    show "create"
k scale deployment web --replicas=5 >/dev/null;      show "scale up"
k scale deployment web --replicas=2 >/dev/null;      show "scale down"
command_of web '["sleep", "3601"]';                  show "update"
k rollout undo deployment web >/dev/null;            show "rollback"
k rollout pause deployment web >/dev/null
command_of web '["sleep", "3602"]';                  show "paused update"
k scale deployment web --replicas=3 >/dev/null;      show "paused scale"
k rollout resume deployment web >/dev/null;          show "resume"
command_of web '["/no/such/program"]';               sleep 10; show "bad command"
k scale deployment web --replicas=6 >/dev/null;      show "scale in the middle"
k rollout undo deployment web >/dev/null;            show "back from the bad command"
for cost in 10 -10 0; do
  pod=$(k get pods -l app=web -o name | sed -n "$((cost / 10 + 2))p")
  k annotate "$pod" "controller.kubernetes.io/pod-deletion-cost=$cost" >/dev/null
done
k scale deployment web --replicas=1 >/dev/null;      show "deletion cost: the dearest stays"
k delete deployment web --cascade=orphan >/dev/null; show "orphaned"
deployment web 1 '"25%"' '"25%"';                    show "adopted"
pod=$(k get pods -l app=web -o name | head -1)
k label "$pod" app=released --overwrite >/dev/null;  show "released"
k delete deployment web >/dev/null
k delete pods --all >/dev/null
for bounds in '1 0' '0 1' '"100%" 0' '0 "100%"' '2 2'; do
  # shellcheck disable=SC2086
  deployment surge 4 $bounds;                        show "surge $bounds"
  command_of surge "[\"sleep\", \"36$RANDOM\"]";     show "surge $bounds, updated"
  k delete deployment surge >/dev/null
done
deployment again 3 1 1 Recreate;                     show "recreate"
command_of again '["sleep", "3601"]';                show "recreate, updated"
echo "== events"; events
