#!/usr/bin/env bash
# bwrap of this machine's distribution, the sandbox of jobs, unpacked and not installed.
# Prints its folder, which holds `bwrap`.
. "$(dirname "$0")/common.sh"
# The number is of this script: the distribution decides about the version, see `versions`.
begin bubblewrap 1 "$@"
if command -v apt-get >/dev/null 2>&1; then
  debian_packages bubblewrap
  ln -s root/usr/bin/bwrap "$OUT/bwrap"
elif found=$(command -v bwrap); then
  ln -s "$found" "$OUT/bwrap"
else
  fail "bwrap is not installed, and this machine has no apt-get to fetch it with"
fi
step "does it run?" "$OUT/bwrap" --version
finish
