"""One script of operations, for any store. What it answers goes to the standard output."""

import sys
import traceback

import copies
import lists
import objects
import parts
import refusals
import sums

broken = False
for module in (objects, lists, parts, copies, sums, refusals):
    for section in module.SECTIONS:
        try:
            section()
        except Exception:
            # The others are still worth a look.
            broken = True
            traceback.print_exc()
sys.exit(broken)
