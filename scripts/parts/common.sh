# What every part script shares. Sourced, never run.
#
# A part script is called in two ways:
#   scripts/parts/NAME.sh          makes the part when it is not there yet, prints its folder
#   scripts/parts/NAME.sh --find   prints the folder of a part that is there, makes nothing
# Progress goes to standard error. A machine that cannot provide the part gets exit code
# 69 with the reason as the last line of standard error.
set -euo pipefail

PARTS=${OSCAR_PARTS:-${XDG_CACHE_HOME:-$HOME/.cache}/oscar-parts}
SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$PARTS"

# Go builds share one module and build cache below the parts, so that removing the
# parts folder removes everything that was ever downloaded.
export GOMODCACHE="$PARTS/go/mod" GOCACHE="$PARTS/go/build" GOFLAGS="-buildvcs=false -modcacherw"
export GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0

say() { printf '%s\n' "$*" >&2; }

# fail REASON: the reason is kept beside the part, so that a test which misses the part
# later can say why it is missing.
fail() {
  printf '%s\n' "$*" > "$PARTS/$NAME.why"
  say "$*"
  exit 69
}

# need COMMAND WHAT-FOR
need() { command -v "$1" >/dev/null 2>&1 || fail "$1 is not installed; it is needed to $2"; }

# begin NAME VERSION ARGUMENTS...: returns only when the part has to be made now, with an
# empty folder in $OUT and this process as the only one making it. A part is complete
# when its folder holds the file `.complete`; anything else is an interrupted build.
begin() {
  NAME=$1 OUT="$PARTS/$1-$2"
  LOG="$PARTS/$NAME.log"
  if [ -e "$OUT/.complete" ]; then echo "$OUT"; exit 0; fi
  if [ "${3:-}" = --find ]; then
    [ -s "$PARTS/$NAME.why" ] && cat "$PARTS/$NAME.why" >&2 || say "$NAME $2 is not there; scripts/parts/$NAME.sh makes it"
    exit 69
  fi
  need flock "make $NAME"
  exec 9>"$PARTS/$NAME.lock"
  flock -n 9 || { say "another process is making $NAME: waiting for it"; flock 9; }
  if [ -e "$OUT/.complete" ]; then echo "$OUT"; exit 0; fi
  rm -rf "$OUT" "$PARTS/$NAME.why"
  mkdir -p "$OUT"
  : > "$LOG"
}

# finish: the one place where a part becomes usable.
finish() {
  touch "$OUT/.complete"
  echo "$OUT"
}

# step WHAT COMMAND...: runs the command with its output in the log and a line every
# half minute; a failure shows the end of the log.
step() {
  local what=$1 started=$SECONDS pid next=30
  shift
  say "  $what"
  "$@" >>"$LOG" 2>&1 </dev/null &
  pid=$!
  # A background command of a script ignores the interrupt key: pass it on.
  trap 'kill $pid 2>/dev/null; exit 130' INT TERM
  while kill -0 $pid 2>/dev/null; do
    sleep 0.2
    [ $((SECONDS - started)) -lt $next ] || { say "  ... $what ($((SECONDS - started)) s)"; next=$((next + 30)); }
  done
  trap - INT TERM
  wait $pid && return
  tail -n 15 "$LOG" >&2
  fail "$what failed: $(tail -n 1 "$LOG" | cut -c1-200) (all of it in $LOG)"
}

# use_go MAJOR.MINOR: puts a Go of at least this version first on the PATH. A machine
# without one gets the copy that scripts/parts/go.sh unpacks.
use_go() {
  local have
  have=$(go env GOVERSION 2>/dev/null | sed -nE 's/^go([0-9]+\.[0-9]+).*/\1/p') || true
  if [ -n "$have" ] && [ "$(printf '%s\n%s\n' "$1" "$have" | sort -V | head -n 1)" = "$1" ]; then return; fi
  local folder
  folder=$(bash "$SCRIPTS/go.sh" 9>&-) || fail "Go $1 or later is not installed and could not be fetched: $(cat "$PARTS/go-toolchain.why" 2>/dev/null)"
  export PATH="$folder/go/bin:$PATH"
}

# go_build OUT MODULE VERSION PACKAGE: a throw-away module with one exact requirement.
# `go install` would ask for the list of versions, which not every proxy answers.
go_build() {
  local work="$PARTS/src/$NAME"
  rm -rf "$work"
  mkdir -p "$work"
  (
    cd "$work"
    go mod init part
    go mod edit -require="$2@$3"
    go build -mod=mod -trimpath -ldflags='-s -w' -o "$1" "$4"
  )
}

# venv FOLDER: a Python environment of its own.
venv() {
  need python3 "make $NAME"
  python3 -c 'import ensurepip, venv' 2>/dev/null || fail "python3 has no venv module (Debian: python3-venv); it is needed to make $NAME"
  step "a Python environment" python3 -m venv "$1"
}

# debian_packages PACKAGE...: unpacks packages of this machine's own distribution into
# $OUT/root, without installing anything, and writes their versions to $OUT/versions. A
# distribution keeps one version at a time, so the newest that it offers is taken. The lists
# of packages are read anew, into a folder of ours, when the machine has none or old ones.
debian_packages() {
  need apt-get "fetch $NAME"
  need dpkg "unpack $NAME"
  local work="$PARTS/src/$NAME" lists
  rm -rf "$work"
  mkdir -p "$work" "$OUT/root"
  if ! step_quietly apt_download "$work" "$@"; then
    lists="$PARTS/apt"
    mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial"
    APT_OPTIONS=(-o "Dir::State::Lists=$lists/lists" -o "Dir::Cache=$lists/cache" -o "APT::Sandbox::User=")
    step "the lists of packages" apt-get "${APT_OPTIONS[@]}" update
    step "the packages" apt_download "$work" "$@"
  fi
  step "unpacking them" unpack_packages "$work"
}

APT_OPTIONS=(-o "APT::Sandbox::User=")
step_quietly() { "$@" >>"$LOG" 2>&1 </dev/null; }
apt_download() { (cd "$1" && shift && apt-get "${APT_OPTIONS[@]}" download "$@"); }
unpack_packages() {
  local package
  for package in "$1"/*.deb; do
    dpkg -x "$package" "$OUT/root"
    dpkg-deb --show --showformat '${Package} ${Version}\n' "$package" >> "$OUT/versions"
  done
}
