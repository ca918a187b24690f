#!/usr/bin/env bash
# Fetches Keycloak and prepares it for quick starts with a database in memory. Prints its
# folder, which tests only read: they hand it ports, and a realm over its REST interface.
. "$(dirname "$0")/common.sh"
VERSION=26.7.3
SHA256=77657f30b7e90d70f727712ce1c967f430fd6a5e9f458d32d8c6df0635345f47
begin keycloak $VERSION "$@"
say "fetching Keycloak $VERSION once (180 MB, about a minute and a half)"
need java "run Keycloak"
need mvn "fetch Keycloak"
java_major=$(java -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1)
[ "${java_major:-0}" -ge 17 ] || fail "Keycloak needs Java 17 or later; this is Java ${java_major:-unknown}"

repository="$PARTS/src/maven"
archive="$repository/org/keycloak/keycloak-quarkus-dist/$VERSION/keycloak-quarkus-dist-$VERSION.tar.gz"
step "the archive" mvn -B -ntp -q "-Dmaven.repo.local=$repository" \
  org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get \
  "-Dartifact=org.keycloak:keycloak-quarkus-dist:$VERSION:tar.gz" -Dtransitive=false
echo "$SHA256  $archive" | sha256sum --check --status || { rm -f "$archive"; fail "the Keycloak archive is not the one expected (its sha256 differs)"; }
step "unpacking" tar xzf "$archive" -C "$OUT" --strip-components=1
step "preparing it for quick starts" "$OUT/bin/kc.sh" build --db=dev-mem --cache=local --health-enabled=true
rm -rf "$repository"
finish
