#!/bin/sh
# Stands in for podman. It has no image, writes down beside itself what it is asked, and does not
# come back from the command that the file `hangs` names. There a child does the work, as with an
# engine of an unprivileged user.
here=$(dirname "$0")
printf '%s %s %s %s\n' "$1" "$2" "$3" "$4" >> "$here/asked"
if [ "$1" = "$(cat "$here/hangs")" ]; then
  sleep "$(cat "$here/seconds")" &
  : > "$here/hanging"
  wait
fi
case $1 in
  info) echo 5.0.0 ;;
  create | image) echo 'Error: no such image' >&2; exit 125 ;;
esac
