#!/usr/bin/env bash
# OSCAR's own supervisor, in Python: what ours is measured beside. Prints its folder.
. "$(dirname "$0")/common.sh"
VERSION=1.5.8
begin faas-supervisor $VERSION "$@"
say "fetching faas-supervisor $VERSION once (about half a minute)"
venv "$OUT"
# Its own list of requirements is malformed, so they are named here. setuptools has the
# distutils that newer Pythons left out.
step "its packages" "$OUT/bin/pip" install --quiet --no-deps --disable-pip-version-check \
  faas-supervisor==$VERSION boto3==1.44.0 botocore==1.44.0 jmespath==1.1.0 python-dateutil==2.9.0.post0 s3transfer==0.19.3 six==1.17.0 \
  urllib3==2.8.0 requests==2.34.2 certifi==2026.10.18 charset-normalizer==3.5.2 idna==3.20 lxml==6.1.3 webdavclient3==3.14.6 PyYAML==6.0.3 \
  setuptools==80.9.0
finish
