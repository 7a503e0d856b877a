# A bed whose API server is `lifesign apiserver`, with the stock scheduler, controller manager, kubelet and kube-proxy. Sourced by
# bed.sh.

# write_lifesign_layout PROGRAM: the same files as with a stock API server, but for the control plane, whose parts are units here.
write_lifesign_layout() {
  local program=$1 k=/etc/kubernetes data=/etc/kubernetes/lifesign
  [ -x "$program" ] || fail "$program: no such program"
  mkdir -p "$bed$k/manifests" "$bed$k/pki" "$bed$data"
  write_units ""
  unit apiserver "exec $program apiserver --data-dir $data --listen $NODE_IP:6443 --external-controllers --service-cluster-ip-range $SERVICES"
  unit kube-controller-manager "$(after controller-manager.conf)" "exec /run/bin/kube-controller-manager --kubeconfig=$k/controller-manager.conf \
    --authentication-kubeconfig=$k/controller-manager.conf --authorization-kubeconfig=$k/controller-manager.conf --bind-address=127.0.0.1 \
    --root-ca-file=$k/pki/ca.crt --leader-elect=true '--controllers=*' --kube-api-qps=200 --kube-api-burst=400"
  unit kube-scheduler "$(after scheduler.conf)" "exec /run/bin/kube-scheduler --kubeconfig=$k/scheduler.conf \
    --authentication-kubeconfig=$k/scheduler.conf --authorization-kubeconfig=$k/scheduler.conf --bind-address=127.0.0.1 --leader-elect=true"
  local name
  for name in kubelet kube-proxy; do sed -i "1a $(after "$name.conf")" "$bed$k/units/$name"; done
  write_kubelet_config
  write_kube_proxy_config
  write_containerd_config
}

# after FILE: a line of a unit that waits for a file of its configuration.
after() { echo "until [ -e /etc/kubernetes/$1 ]; do sleep 0.1; done"; }

# write_lifesign_credentials PROGRAM: what each component is known by, once the server has an authority.
write_lifesign_credentials() {
  local program=$1 k=$bed/etc/kubernetes data=$bed/etc/kubernetes/lifesign
  until_true 60 test -s "$data/server" || start_failed "lifesign apiserver did not start"
  cp "$data/pki/ca.crt" "$k/pki/ca.crt"
  cp "$data/kubeconfig" "$k/admin.conf"
  credentials controller-manager.conf
  credentials scheduler.conf --role controllers
  credentials kube-proxy.conf --role controllers
  credentials kubelet.conf --node "$NODE"
}

credentials() {
  local file=$k/$1
  shift
  "$program" kubeconfig --data-dir "$data" "$@" >"$file.new"
  mv "$file.new" "$file"
}
