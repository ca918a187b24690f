#!/usr/bin/env bash
# Builds MinIO, the object store that OSCAR is mostly run with, and `mc`, its client.
# Prints their folder.
. "$(dirname "$0")/common.sh"
VERSION=2026-02-12
begin minio $VERSION "$@"
say "building MinIO $VERSION and mc once (about four minutes on two cores)"
use_go 1.24
# Neither module has a tag of the form Go expects: these are commits.
step "MinIO" go_build "$OUT/minio" github.com/minio/minio v0.0.0-20260212201848-7aac2a2c5b7c github.com/minio/minio
step "mc" go_build "$OUT/mc" github.com/minio/mc v0.0.0-20250313080218-cf909e1063a9 github.com/minio/mc
finish
