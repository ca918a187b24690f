#!/usr/bin/env bash
# Builds dex, the small OpenID Connect provider of the tests. Prints its folder.
. "$(dirname "$0")/common.sh"
VERSION=2.45.1
begin dex $VERSION "$@"
say "building dex $VERSION once (about one minute on two cores)"
use_go 1.25
# The module has no tag of the form Go expects: this is the commit of the release.
step "dex" go_build "$OUT/dex" github.com/dexidp/dex v0.0.0-20260303133905-11d2eeb52b42 github.com/dexidp/dex/cmd/dex
finish
