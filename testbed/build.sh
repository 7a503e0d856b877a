# Builds the programs of the bed into the cache. Sourced by run.

# Prints the flags that make a program say which version it is.
version_flags() {
  local minor=${KUBERNETES#v1.} package
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- '-X %s.%s=%s ' "$package" gitVersion "$KUBERNETES" "$package" gitMajor 1 "$package" gitMinor "${minor%%.*}"
  done
}

build() {
  if [ -e "$bin/complete" ]; then
    echo "the bed is built: $bin"
    return
  fi
  has go || fail "no go on the PATH: Go 1.26 or newer is needed"
  mkdir -p "$cache"
  local new
  new=$(mktemp -d "$cache/new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  echo "building Kubernetes $KUBERNETES and etcd: about five minutes on two cores"
  (cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $(version_flags)" -o "$new/" tool ./bed)
  local program
  for program in $PROGRAMS bed; do [ -x "$new/$program" ] || fail "go build made no $program"; done
  touch "$new/complete"
  rm -rf "$bin" && mv "$new" "$bin"
  trap - EXIT
  echo "built: $bin"
}
