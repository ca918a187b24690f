#!/usr/bin/env bash
# Builds etcd, kube-apiserver, kube-controller-manager and kubectl from their published
# modules. Prints the folder that holds them.
. "$(dirname "$0")/common.sh"
VERSION=1.34.4
begin kubernetes $VERSION "$@"
say "building Kubernetes $VERSION once (about seven minutes on two cores, 3 GB of memory)"
use_go 1.24

work="$PARTS/src/kubernetes-$VERSION"
rm -rf "$work"
mkdir -p "$work"
cd "$work"
# The staging modules are published apart, under v0: name each one that Kubernetes
# itself replaces by a folder of its own tree.
download() { go mod download -json "k8s.io/kubernetes@v$VERSION" > download.json; }
step "the modules of Kubernetes" download
manifest=$(sed -n 's/^[[:space:]]*"GoMod": "\(.*\)",$/\1/p' download.json)
{
  echo "module part"
  grep -E '^(go|godebug) ' "$manifest"
  echo "require k8s.io/kubernetes v$VERSION"
  sed -nE "s#^[[:space:]]*(k8s.io/[a-z-]+) => \./staging.*#replace \1 => \1 v0.${VERSION#1.}#p" "$manifest"
} > go.mod
# Without these the server calls itself v0.0.0 and clients refuse features by version.
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  flags="$flags -X $package.gitVersion=v$VERSION -X $package.gitMajor=1 -X $package.gitMinor=34"
done
build() { go build -mod=mod -trimpath -ldflags "$flags" -o "$OUT/$1" "$2"; }
step etcd build etcd go.etcd.io/etcd/server/v3
for binary in kube-apiserver kube-controller-manager kubectl; do
  step "$binary" build "$binary" "k8s.io/kubernetes/cmd/$binary"
done
finish
