# Builds the programs of the bed into the cache. Sourced by run.

# Prints the flags that make a program say which version it is.
version_flags() {
  local minor=${KUBERNETES#v1.} package
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- '-X %s.%s=%s ' "$package" gitVersion "$KUBERNETES" "$package" gitMajor 1 "$package" gitMinor "${minor%%.*}"
  done
}

# into FOLDER COMMAND...: runs a command that fills the folder NEW; then it becomes FOLDER, whole or not at all.
into() {
  local folder=$1
  shift
  mkdir -p "$cache"
  new=$(mktemp -d "$cache/new.XXXXXX")
  chmod 755 "$new"
  trap 'rm -rf "$new"' EXIT
  "$@"
  # Another clone may have been faster.
  mv -T "$new" "$folder" 2>/dev/null || [ -d "$folder" ]
  rm -rf "$new"
  trap - EXIT
}

build_programs() {
  echo "building Kubernetes $KUBERNETES: some minutes"
  (cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $(version_flags)" -o "$new/" tool)
  local program
  for program in $PROGRAMS; do [ -x "$new/$program" ] || fail "go build made no $program"; done
}

build_bed() {
  (cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$new/bed" ./bed)
  ln "$programs"/* "$new/"
}

build() {
  [ -d "$bin" ] || has go || fail "no go on the PATH: Go 1.26 or newer is needed"
  [ -d "$programs" ] || into "$programs" build_programs
  [ -d "$bin" ] || into "$bin" build_bed
  echo "built: $bin"
}
