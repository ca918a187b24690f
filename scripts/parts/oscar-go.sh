#!/usr/bin/env bash
# Builds the manager of upstream OSCAR, written in Go: a foreign member for federations.
# Prints its folder. Version 4 is not published as a module; 3.7.1 is the last that is.
. "$(dirname "$0")/common.sh"
VERSION=3.7.1
begin oscar-go $VERSION "$@"
say "building Go OSCAR $VERSION once (about two minutes on two cores)"
use_go 1.24
step "Go OSCAR" go_build "$OUT/oscar" github.com/grycap/oscar/v3 v$VERSION github.com/grycap/oscar/v3
finish
