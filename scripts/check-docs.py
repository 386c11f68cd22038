#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check-docs.py -- what documents name exists: files, functions and classes in them, links and the headings they lead
to; files that comments of C name exist as well. Prints what does not, one a line.

A function is named as `path/file.c: function, another`, or `file.c: function` where the folder is clear to a reader; a
folder's files as `engine/fabric/` and `engine/door/`. Names in docs/runs/ are not checked, because a run may describe older code.
`make bench` writes docs/runs/bench.md.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

TOP = """base host probe loop wire bootstrap local engine store kvclient kvserver kvbench kvcli kvdoctor kvlab tests scripts docs
    examples""".split()
PATH = re.compile(r"(?<![\w./-])((?:%s)/[\w./*-]*\w\.(?:c|h|S|sh|py|md|mk|patch|def|txt|3))(?![\w])" % "|".join(TOP))
NAMED = re.compile(r"(?<![\w./*-])([\w./-]*\w\.[chS]): ?`?([a-z_]\w*(?:(?:, |`, `)[a-z_]\w*)*)(\(\)|`)?")
CLASS = re.compile(r"`([\w./]+\.py)`, `class (\w+)`")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]:\s*(\S+)", re.M)

def slug(heading):
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda m: m.group(1) or "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")

def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)

def codes_without_advice(files):
    """Each error code has a line in the table of docs/reference/codes.md, and each that stands there is one."""
    header, guide = "base/codes.h", "docs/reference/codes.md"
    if header not in files or guide not in files:
        return []
    codes = set(re.findall(r"^\t(KV_E[A-Z]+) =", open(header).read(), re.M))
    rows = re.findall(r"^\|(.*?)\|", open(guide).read(), re.M)
    told = [code for row in rows for code in re.findall(r"-(KV_E[A-Z]+)", row)]
    return (
        [f"{guide}: the table says nothing about {c}" for c in sorted(codes - set(told))]
        + [f"{guide}: there is no {c}" for c in sorted(set(told) - codes)]
        + [f"{guide}: {c} stands in two rows" for c in sorted({c for c in told if told.count(c) > 1})]
        + ([] if codes else [f"{header}: no codes found"])
    )


def guarantees_without_test(files):
    """Each cell of the table of guarantees is a test: the column's name and the row's make the test's name."""
    document, source = "docs/internals/reliability.md", "tests/sim/test_sim_guarantees.c"
    if document not in files or source not in files:
        return []
    rows = re.findall(r"^\| *`(_\w+)` *\|", open(document).read(), re.M)
    columns = re.findall(r"`(\w+)_\*`", "".join(re.findall(r"^\| test \|.*", open(document).read(), re.M)))
    tests = set(re.findall(r"\b((?:%s)_\w+)\b" % "|".join(columns or ["x"]), open(source).read()))
    names = {c + r for c in columns for r in rows}
    return [f"{document}: {source} has no {n}" for n in sorted(names - tests)] + (
        [] if names else [f"{document}: no table of guarantees found"])


def main():
    git = shutil.which("git")
    listed = subprocess.run([git, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True).stdout if git else ""
    files = [f for f in listed.split() if os.path.isfile(f)]
    if not files:
        files = [f for f in glob.glob("**/*", recursive=True) if os.path.isfile(f) and not f.startswith("build/")]
    by_name, headings, wrong = {}, {}, codes_without_advice(files) + guarantees_without_test(files)
    for f in files:
        by_name.setdefault(os.path.basename(f), []).append(f)
    documents = [f for f in files if f.endswith(".md")]
    for f in documents:
        headings[f] = {slug(h) for h in re.findall(r"^#+ +(.*)$", without_code(open(f).read()), re.M)}

    def word_in(name, paths):
        """What the file defines or has in a table: a comment and a call of another file's function do not count."""
        code = [COMMENT.sub("", open(p, errors="replace").read()) for p in paths]
        return any(re.search(r"^[^\s#].*\b%s\(|\b%s\b(?!\()" % (name, name), c, re.M) for c in code)

    folders = {part for f in files for part in os.path.dirname(f).split("/")}
    for f in documents:
        tree = re.search(r"^## The map\n.*?^```\n(.*?)^```", open(f).read(), re.S | re.M)
        named = re.findall(r"(?<![\w/.])([a-z]\w*)/(?![a-z])", tree.group(1)) if tree else []
        wrong += [f"{f}: the map names {name}/, and there is no such folder" for name in named if name not in folders]

    def paths_missing(text):
        paths = sorted(set(PATH.findall(text)) - {"docs/runs/bench.md"})
        return [p for p in paths if "NAME" not in p and not glob.glob(p) and not glob.glob("tests/" + p)]

    for f in files:
        if f.endswith((".c", ".h")):
            comments = " ".join(COMMENT.findall(open(f, errors="replace").read()))
            wrong += [f"{f}: there is no {path}" for path in paths_missing(comments)]
    for f in documents:
        text = open(f).read()
        for m in LINK.finditer(without_code(text)):
            target, _, anchor = (m.group(1) or m.group(2)).partition("#")
            if "://" in target or target.startswith("mailto:"):
                continue
            path = os.path.normpath(os.path.join(os.path.dirname(f), target)) if target else f
            if not os.path.exists(path):
                wrong.append(f"{f}: the link to {target} leads nowhere")
            elif anchor and path in headings and anchor not in headings[path]:
                wrong.append(f"{f}: {path} has no heading #{anchor}")
        if f.startswith("docs/runs/"):
            continue
        wrong += [f"{f}: there is no {path}" for path in paths_missing(text)]
        wrong += [f"{f}: {path} has no class {name}" for path, name in CLASS.findall(text)
                  if os.path.isfile(path) and not re.search(r"^class %s\b" % name, open(path).read(), re.M)]
        for m in NAMED.finditer(text):
            path, names = m.group(1), re.findall(r"\w+", m.group(2))
            paths = [p for p in by_name.get(os.path.basename(path), []) if p.endswith("/" + path)]
            if os.path.isfile(path):
                paths = [path]
            if not paths:
                if "/" not in path:
                    wrong.append(f"{f}: there is no file {path}")
                continue
            # Prose may follow a file's name; what looks like a function of ours has an underscore.
            wrong += [f"{f}: {path} does not name {n}" for n in names
                      if "_" in n and n[-1] != "_" and not word_in(n, paths)]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 0

sys.exit(main())
