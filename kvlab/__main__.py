# SPDX-License-Identifier: Apache-2.0
"""The commands of kv-bench that work on results of runs: python3 -I kvlab VERSION COMMAND ARGUMENTS.

kv-bench parses the options and starts this program (kvbench/report/lab.c). The filters page, hgrm and csv write a file
to standard output. The first argument of all but plot is the number of a descriptor from which to read a document: the
report, the default options, the plan.
"""
import importlib
import json
import signal
import sys

from text import Out

OK, FAILED = 0, 1
PLANNED = ("capacity", "scale", "sweep", "versus")


def document_of(fd):
    with open(int(fd), encoding="utf-8", errors="replace") as f:
        return json.load(f)


def make(kind, doc):
    """A filter. Of a report without the figures of the file: the reason, and status 1."""
    import document
    import page
    makers = {"page": page.page, "hgrm": document.hgrm, "csv": document.csv}
    try:
        print(makers[kind](doc), end="")
    except document.Refused as why:
        print(why, end="")
        return FAILED
    return OK


def command(version, name, args):
    """Modules are imported where they are needed: most of the time of a command is that of its imports."""
    if name == "plot":
        import plot
        return plot.main(args, version)
    if name == "compare":
        import compare
        return compare.main(document_of(args[0]), args[1:], version)
    if name in PLANNED:
        return importlib.import_module(name).main(document_of(args[0]))
    return make(name, document_of(args[0]))


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout, sys.stderr = Out(1), Out(2)
    status = command(sys.argv[1], sys.argv[2], sys.argv[3:])
    sys.stdout.flush()
    if sys.stdout.lost and status == OK:
        print("kv-bench: the text could not be written to standard output", file=sys.stderr)
        status = FAILED
    return status


if __name__ == "__main__":
    sys.exit(main())
