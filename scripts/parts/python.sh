#!/usr/bin/env bash
# A Python environment with the published OSCAR client and an API fuzzer, every package
# at the exact version that python.txt names. Prints its folder.
. "$(dirname "$0")/common.sh"
# The pins are the version: a changed list is a new environment.
VERSION=$(cksum < "$SCRIPTS/python.txt" | cut -d' ' -f1)
begin python "$VERSION" "$@"
say "fetching the Python packages of the tests once (about half a minute)"
venv "$OUT"
step "the packages of scripts/parts/python.txt" "$OUT/bin/pip" install --quiet --no-deps --disable-pip-version-check -r "$SCRIPTS/python.txt"
step "do they fit together?" "$OUT/bin/pip" check
finish
