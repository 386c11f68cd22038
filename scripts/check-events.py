#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check-events.py -- whether docs/reference/events.md names each event of the sources, with its fields in their order,
and whether each warning and error of kv-server is one.

Prints what differs, or nothing. Run it from the root of the tree.
"""
import glob
import re
import sys

ROOMS = "base host probe loop wire bootstrap local engine store kvclient kvserver kvbench kvcli kvdoctor".split()
EVENTS_ONLY = ("bootstrap/", "host/", "store/", "kvserver/")  # what they warn of, programs see
DOC = "docs/reference/events.md"


def behind(text, at):
    """The argument list whose parenthesis opens at `at`."""
    depth, i, quoted = 0, at, False
    while True:
        c = text[i]
        if quoted:
            i += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
            if depth == 0:
                return text[at : i + 1]
        i += 1


def in_sources():
    for room in ROOMS:
        for path in glob.glob(f"{room}/**/*.c", recursive=True):
            with open(path, encoding="utf-8") as f:
                text = f.read()
            for m in re.finditer(r'\bKV_EVENT(?=\("([a-z_]+)")', text):
                fields = re.findall(r'\bKV_(?:FIELD|NUMBER)\("([a-z_]+)"', behind(text, m.end()))
                yield m[1], " ".join(fields), path


def remarks():
    for room in EVENTS_ONLY:
        for path in sorted(glob.glob(f"{room}**/*.c", recursive=True)):
            with open(path, encoding="utf-8") as f:
                for m in re.finditer(r"\b(?:kv_warn|kv_error_log|kv_log)\(.*", f.read()):
                    yield path, m[0]


def in_document():
    with open(DOC, encoding="utf-8") as f:
        return [(m[1], m[2].strip()) for m in re.finditer(r"^\| `([a-z_]+)` \| ?([a-z_ ]*) ?\|", f.read(), re.M)]


def main():
    rows = in_document()
    known, seen, wrong = dict(rows), set(), []
    wrong += [f"{DOC}: {name} stands there twice" for name in known if sum(r[0] == name for r in rows) > 1]
    for name, fields, path in in_sources():
        seen.add(name)
        if name not in known:
            wrong.append(f"{path}: {DOC} does not name {name} ({fields})")
        elif known[name] != fields:
            wrong.append(f"{path}: {name} has the fields '{fields}', and '{known[name]}' in {DOC}")
    wrong += [f"{DOC}: there is no event {name}" for name in known if name not in seen]
    wrong += [f"{path}: a warning that is no event, kv_event(..., KV_EVENT(...), ...): {line}" for path, line in remarks()]
    print("\n".join(wrong), end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
