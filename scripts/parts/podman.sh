#!/usr/bin/env bash
# podman and what it needs, of this machine's distribution, unpacked and not installed, with a
# small image made of this machine's own shell. Prints its folder, which holds `podman`, a
# program with settings of its own: containers, images and sockets are all below that folder.
. "$(dirname "$0")/common.sh"
# The number is of this script: the distribution decides about the versions, see `versions`.
begin podman 1 "$@"
[ "$(id -u)" = 0 ] || fail "podman is only tried as root: without, it needs newuidmap and ranges of users in /etc/subuid"
debian_packages podman conmon runc golang-github-containers-common golang-github-containers-image \
  libgpgme11 libassuan0 libsubid4 libdevmapper1.02.1 libseccomp2 busybox-static
mkdir -p "$OUT/state" "$OUT/home/.config/containers"
cp "$OUT/root/etc/containers/policy.json" "$OUT/home/.config/containers/"

libraries="$OUT/root/usr/lib/$(uname -m)-linux-gnu:$OUT/root/lib/$(uname -m)-linux-gnu"

# Containers are started by runc below the control groups of version 1 or 2 as they are, without
# systemd, and with limits that a root without all rights may set.
cat > "$OUT/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
seccomp_profile = "$OUT/root/usr/share/containers/seccomp.json"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
conmon_path = ["$OUT/root/usr/bin/conmon"]
# conmon starts podman again when a container has ended; without its libraries that fails, and
# whoever waits for the end waits for twenty seconds more.
conmon_env_vars = [
  "PATH=$PATH", "HOME=$OUT/home", "LD_LIBRARY_PATH=$libraries",
  "CONTAINERS_CONF=$OUT/containers.conf", "CONTAINERS_STORAGE_CONF=$OUT/storage.conf",
]
[engine.runtimes]
runc = ["$OUT/runc"]
CONF
cat > "$OUT/storage.conf" <<CONF
[storage]
driver = "vfs"
graphroot = "$OUT/state/graph"
runroot = "$OUT/state/run"
CONF
program() { # program FILE LINE...: a shell program that sets things and becomes another
  local file=$1
  shift
  printf '%s\n' '#!/bin/sh' "export LD_LIBRARY_PATH='$libraries'" "$@" > "$OUT/$file"
  chmod +x "$OUT/$file"
}
program runc "exec '$OUT/root/usr/sbin/runc' \"\$@\""
program podman \
  "export HOME='$OUT/home'" \
  "export CONTAINERS_CONF='$OUT/containers.conf' CONTAINERS_STORAGE_CONF='$OUT/storage.conf'" \
  "export CONTAINERS_REGISTRIES_CONF='$OUT/root/etc/containers/registries.conf'" \
  "exec '$OUT/root/usr/bin/podman' --tmpdir '$OUT/state/tmp' \"\$@\""

# An image that needs no registry.
image() {
  local tree="$PARTS/src/$NAME/image"
  mkdir -p "$tree/bin" "$tree/tmp" "$tree/etc"
  chmod 1777 "$tree/tmp"
  cp "$OUT/root/bin/busybox" "$tree/bin/busybox"
  ln -s busybox "$tree/bin/sh"
  chroot "$tree" /bin/busybox --install -s /bin
  echo 'root:x:0:0:root:/:/bin/sh' > "$tree/etc/passwd"
  tar -C "$tree" -c . | "$OUT/podman" import - localhost/oscar-busybox:1
}
step "an image" image
step "does it run?" "$OUT/podman" run --rm --network none --cap-drop ALL localhost/oscar-busybox:1 /bin/true
finish
