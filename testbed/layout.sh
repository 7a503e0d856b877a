# Writes the files of the node below $bed as kubeadm lays them out, for the addresses in $bed/settings. Sourced by bed.sh.

# static_pod NAME PORT SCHEME HOST PATH PROGRAM ARGUMENT...: prints the manifest of a part of the control plane.
static_pod() {
  local name=$1 port=$2 scheme=$3 host=$4 path=$5 argument cpu
  shift 5
  # As kubeadm asks for them. Without, the kernel gives a component a hundredth of what any pod with a request gets.
  case $name in
    kube-apiserver) cpu=250m ;;
    kube-controller-manager) cpu=200m ;;
    *) cpu=100m ;;
  esac
  local probe="httpGet: {host: $host, path: $path, port: $port, scheme: $scheme}"
  cat <<YAML
apiVersion: v1
kind: Pod
metadata:
  name: $name
  namespace: kube-system
  labels: {component: $name, tier: control-plane}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  priority: 2000001000
  containers:
  - name: $name
    image: $IMAGE
    imagePullPolicy: Never
    command:
YAML
  for argument in "$@"; do printf '    - "%s"\n' "$argument"; done
  cat <<YAML
    startupProbe: {$probe, periodSeconds: 1, failureThreshold: 120, timeoutSeconds: 15}
    livenessProbe: {$probe, periodSeconds: 10, failureThreshold: 8, timeoutSeconds: 15}
    resources: {requests: {cpu: $cpu}}
    env:
    - {name: PATH, value: /run/bin:/bin}
    volumeMounts:
    - {name: programs, mountPath: /run/bin, readOnly: true}
    - {name: kubernetes, mountPath: /etc/kubernetes, readOnly: true}
    - {name: etcd, mountPath: /var/lib/etcd}
  volumes:
  - {name: programs, hostPath: {path: /run/bin, type: Directory}}
  - {name: kubernetes, hostPath: {path: /etc/kubernetes, type: Directory}}
  - {name: etcd, hostPath: {path: /var/lib/etcd, type: DirectoryOrCreate}}
YAML
}

# write_manifests CONTROLLERS DURABLE: the control plane. CONTROLLERS are those that kube-controller-manager runs; with DURABLE etcd
# writes to the disk before it answers.
write_manifests() {
  local k=/etc/kubernetes manifests=$bed/etc/kubernetes/manifests
  mkdir -p "$manifests"
  static_pod etcd 2379 HTTP 127.0.0.1 /health \
    bed etcd /var/lib/etcd http://127.0.0.1:2379 ${2:+"$2"} >"$manifests/etcd.yaml"
  static_pod kube-apiserver 6443 HTTPS "$NODE_IP" /livez \
    kube-apiserver --advertise-address="$NODE_IP" --allow-privileged=true --authorization-mode=Node,RBAC \
    --client-ca-file=$k/pki/ca.crt --enable-admission-plugins=NodeRestriction --etcd-servers=http://127.0.0.1:2379 \
    --kubelet-client-certificate=$k/pki/apiserver-kubelet-client.crt --kubelet-client-key=$k/pki/apiserver-kubelet-client.key \
    --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname --secure-port=6443 \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local --service-account-key-file=$k/pki/sa.pub \
    --service-account-signing-key-file=$k/pki/sa.key --service-cluster-ip-range="$SERVICES" \
    --tls-cert-file=$k/pki/apiserver.crt --tls-private-key-file=$k/pki/apiserver.key >"$manifests/kube-apiserver.yaml"
  write_controller_manager "$1"
  static_pod kube-scheduler 10259 HTTPS 127.0.0.1 /healthz \
    kube-scheduler --authentication-kubeconfig=$k/scheduler.conf --authorization-kubeconfig=$k/scheduler.conf \
    --bind-address=127.0.0.1 --kubeconfig=$k/scheduler.conf --leader-elect=true >"$manifests/kube-scheduler.yaml"
}

# Tests make and delete namespaces by the hundred: beyond kubeadm's layout, the controllers may ask more often.
write_controller_manager() {
  local k=/etc/kubernetes new=$bed/etc/kubernetes/.kube-controller-manager.yaml
  static_pod kube-controller-manager 10257 HTTPS 127.0.0.1 /healthz \
    kube-controller-manager --authentication-kubeconfig=$k/controller-manager.conf --authorization-kubeconfig=$k/controller-manager.conf \
    --bind-address=127.0.0.1 --client-ca-file=$k/pki/ca.crt --cluster-name=kubernetes --cluster-signing-cert-file=$k/pki/ca.crt \
    --cluster-signing-key-file=$k/pki/ca.key "--controllers=$1" --kubeconfig=$k/controller-manager.conf --leader-elect=true \
    --kube-api-qps=200 --kube-api-burst=400 --concurrent-namespace-syncs=20 --root-ca-file=$k/pki/ca.crt --service-account-private-key-file=$k/pki/sa.key \
    --use-service-account-credentials=true >"$new"
  mv "$new" "$bed/etc/kubernetes/manifests/kube-controller-manager.yaml"
}

# unit NAME LINE...: what `bed init` keeps running.
unit() {
  local file=$bed/etc/kubernetes/units/$1
  shift
  { echo '#!/bin/bash'; printf '%s\n' "$@"; } >"$file"
  chmod +x "$file"
}

# write_units CONFIG_DIR: CONFIG_DIR is empty, as kubeadm has it, or where drop-ins of the kubelet are.
write_units() {
  mkdir -p "$bed/etc/kubernetes/units" "$bed/var/lib/kubelet" ${1:+"$bed$1"}
  echo "KUBELET_KUBEADM_ARGS=\"--hostname-override=$NODE --node-ip=$NODE_IP\"" >"$bed/var/lib/kubelet/kubeadm-flags.env"
  unit containerd 'exec containerd --config /etc/containerd/config.toml'
  # A kubelet that finds no image of the control plane tries again much later.
  unit kubelet 'until [ -e /run/image-imported ]; do sleep 0.1; done' '. /var/lib/kubelet/kubeadm-flags.env' 'export PATH=/run/bin:$PATH' \
    "exec kubelet --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml${1:+ --config-dir=$1} \$KUBELET_KUBEADM_ARGS"
  unit kube-proxy "exec /run/bin/kube-proxy --config=/etc/kubernetes/kube-proxy.yaml --hostname-override=$NODE"
}

write_kubelet_config() {
  cat >"$bed/var/lib/kubelet/config.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupsPerQOS: true
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
# The disk of the machine is not the bed's to manage.
evictionHard: {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}
imageGCHighThresholdPercent: 100
# An empty list is lost when drop-ins are merged.
enforceNodeAllocatable: [none]
failCgroupV1: false
failSwapOn: false
maxPods: 250
oomScoreAdj: 0
staticPodPath: /etc/kubernetes/manifests
YAML
}

write_kube_proxy_config() {
  cat >"$bed/etc/kubernetes/kube-proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: /etc/kubernetes/kube-proxy.conf}
mode: iptables
clusterCIDR: $NETWORK
# Replies between pods of one bridge must come back through the node.
iptables: {masqueradeAll: true, syncPeriod: 30s, minSyncPeriod: 0s}
# These belong to the machine, not to the namespace.
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
oomScoreAdj: 0
YAML
}

write_containerd_config() {
  local snapshotter=overlayfs
  [ "$(stat -f -c %T "$bed")" != overlayfs ] || snapshotter=native
  mkdir -p "$bed/etc/containerd" "$bed/etc/cni/net.d"
  cat >"$bed/etc/containerd/config.toml" <<TOML
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "$IMAGE"
# Without CAP_SYS_RESOURCE runc cannot lower it.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "$snapshotter"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "/etc/cni/net.d"
TOML
  cat >"$bed/etc/cni/net.d/10-bed.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "bed", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "isDefaultGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$NETWORK", "gateway": "$NODE_IP", "rangeStart": "${NETWORK%.0/24}.2", "rangeEnd": "${NETWORK%.0/24}.250"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
JSON
}

# What kubeadm keeps in the cluster about itself.
kubeadm_config() {
  cat <<YAML
apiVersion: v1
kind: ConfigMap
metadata: {name: kubeadm-config, namespace: kube-system}
data:
  ClusterConfiguration: |
    apiServer: {}
    apiVersion: kubeadm.k8s.io/v1beta4
    certificatesDir: /etc/kubernetes/pki
    clusterName: kubernetes
    controllerManager: {}
    controlPlaneEndpoint: $NODE_IP:6443
    etcd: {local: {dataDir: /var/lib/etcd}}
    kind: ClusterConfiguration
    kubernetesVersion: $KUBERNETES
    networking: {dnsDomain: cluster.local, podSubnet: $NETWORK, serviceSubnet: $SERVICES}
    scheduler: {}
YAML
}
