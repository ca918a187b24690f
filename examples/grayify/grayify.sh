#!/bin/sh
# Makes a picture grey. It reads and writes PPM as text (P3) and needs a shell and awk, which every
# machine has.
set -e
name=$(basename "$INPUT_FILE_PATH")
awk '
function fail(why) { print name ": " why | "cat >&2"; failed = 1; exit 1 }
function take(word) {
  count++
  if (count == 1 && word != "P3") fail("this is no picture in the format P3")
  if (count > 1 && word !~ /^[0-9]+$/) fail("\"" word "\" is no number")
  if (count == 2) width = word
  if (count == 3) height = word
  if (count == 4) print "P3\n" width, height "\n" word
  if (count < 5) return
  part[(count - 5) % 3] = word
  if ((count - 5) % 3 < 2) return
  grey = int(0.299 * part[0] + 0.587 * part[1] + 0.114 * part[2] + 0.5)
  print grey, grey, grey
}
{ sub(/#.*/, ""); for (i = 1; i <= NF; i++) take($i) }
END { if (!failed && count != 4 + 3 * width * height) fail("the picture is not whole") }
' name="$name" "$INPUT_FILE_PATH" > "$TMP_OUTPUT_DIR/$name"
echo "$name is grey now"
