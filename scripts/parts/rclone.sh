#!/usr/bin/env bash
# rclone of this machine's distribution, a client of object stores, unpacked and not installed.
# Prints its folder, which holds `rclone`.
. "$(dirname "$0")/common.sh"
# The number is of this script: the distribution decides about the version, see `versions`.
begin rclone 1 "$@"
if command -v apt-get >/dev/null 2>&1; then
  debian_packages rclone
  ln -s root/usr/bin/rclone "$OUT/rclone"
elif found=$(command -v rclone); then
  ln -s "$found" "$OUT/rclone"
else
  fail "rclone is not installed, and this machine has no apt-get to fetch it with"
fi
step "does it run?" "$OUT/rclone" version
finish
