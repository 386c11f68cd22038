#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""side_by_side.py [--into README.md | --check README.md] VERSUS.json... -- the table of KVRail beside others, from `kv-bench versus --json`.

Prints Markdown: a row for each other target, columns for GET and PUT of each file's value size, and the conditions. A
figure is the median ratio over the rounds that count, with its 95 % interval of confidence in square brackets, or its
range in round ones; by CPU time, which comes first: of operations per second of client's and server's processors. Of a
shared machine only these are shown: there the kernel gives more time to a server of more threads. A file in which no round counts is left out while another has one. With --into it replaces what stands
between the two marks in that file; with --check it fails where something else stands there.
"""
import json
import sys

BEGIN = "<!-- begin: tests/bench/side_by_side.py -->"
END = "<!-- end -->"
FIGURES = (("get", "GET"), ("put", "PUT"))
COLUMNS = 120


def size_text(size):
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            return f"{size:g} {unit}"
        size /= 1024


def target_text(target, targets):
    """redis://127.0.0.1:6379 of version 7.0.15 is redis 7.0.15: where it ran says nothing. Of two that are called the
    same the threads are told."""
    def plain(t):
        scheme = t["target"].split(":")[0]
        name = (scheme.split("+")[0] + " " + t.get("version", "")).strip()
        return name + (", unix socket" if scheme.endswith("+unix") else "")
    alone = sum(plain(t) == plain(target) for t in targets) == 1
    threads = target.get("server_threads", "?")
    return plain(target) + ("" if alone else f", {threads} thread{'' if threads == 1 else 's'}")


def ratio_text(target, figure, name):
    if not target["ok"]:
        return "failed"
    ratio = target.get(figure, {}).get(name)
    if not ratio:
        return "-"
    if "ci_low" in ratio:
        return f"{ratio['median']:.2f} [{ratio['ci_low']:.2f}-{ratio['ci_high']:.2f}]"
    return f"{ratio['median']:.2f} ({ratio['low']:.2f}-{ratio['high']:.2f})"


def fold(text):
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > COLUMNS:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def span(values, form):
    low, high = form(min(values)), form(max(values))
    return low if low == high else f"{low} to {high}"


def each(texts):
    """What differs between the files is told of each, in their order."""
    return texts[0] if len(set(texts)) == 1 else " or ".join(dict.fromkeys(texts))


def shown(docs):
    """A file in which no round counts is left out, as long as there is another."""
    return [d for d in docs if d["steady"]] or docs


def conditions_text(every):
    docs = shown(every)
    machine = each([f"{c['cores']} cores, {c.get('provider', 'no fabric')} with libfabric {c.get('libfabric', '?')}"
                    for c in (d["conditions"] for d in docs)])
    in_flight = each([str(d["in_flight"]) for d in docs])
    threads = each([", ".join(f"{target_text(t, [t])} {t.get('server_threads', '?')}" for t in d["targets"]) for d in docs])
    rounds = ", ".join(f"{d['counted_rounds']} of {len(d['rounds'])} at {size_text(d['value_bytes'])}"
                       f"{'' if d in docs else ', which is left out'}" for d in every)
    others = [d["conditions"]["others_cores"] for d in docs if "others_cores" in d["conditions"]]
    text = (f"{machine} over loopback, {in_flight} in flight."
            f" Threads of the servers: {threads}. Rounds that count: {rounds}.")
    sends = each([congestion_text(d) for d in docs])
    if sends:
        text += f" Congestion control: {sends}."
    if others:
        text += f" Other processes took {span(others, lambda v: f'{v:.1f}')} of the cores"
        text += ": a shared machine, on which ratios of rates tell how many threads each server has." if shared(docs) else "."
    if not all(d["steady"] for d in docs):
        text += " No round counts: the ratios are of all rounds."
    if any(d["interrupted"] for d in docs):
        text += " Interrupted: a part of the rounds."
    return text


def congestion_text(doc):
    """With what servers send, as far as all that use TCP tell."""
    known = {target_text(t, [t]): t["congestion_control"] for t in doc["targets"] if "congestion_control" in t}
    kinds = sorted(set(known.values()))
    if len(known) < 2:
        return ""
    return f"{kinds[0]} of all" if len(kinds) == 1 else ", ".join(f"{name} {kind}" for name, kind in known.items())


def shared(docs):
    return any(d["conditions"].get("shared_machine") for d in docs)


def check(docs):
    for doc in docs:
        if not isinstance(doc, dict) or doc.get("schema") != "kvbench-versus/1":
            found = doc.get("schema") if isinstance(doc, dict) else "a file"
            raise SystemExit(f"side_by_side.py: {found} is no result of kv-bench versus --json")
    names = [[t["target"] for t in doc["targets"]] for doc in docs]
    if any(other != names[0] for other in names):
        raise SystemExit("side_by_side.py: the files have different targets: use the same --targets for all")


def table(every):
    check(every)
    docs = shown(every)
    heads = [f"{name} {size_text(doc['value_bytes'])}" for doc in docs for _, name in FIGURES]
    lines = ["| KVRail / other | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for i, target in enumerate(docs[0]["targets"][1:], 1):
        rows = {}
        plain = target_text(target, docs[0]["targets"])
        for ratio, name in (("cpu_ratio", plain + ", CPU time"), ("ratio", plain + ", clock")):
            cells = [ratio_text(doc["targets"][i], figure, ratio) for doc in docs for figure, _ in FIGURES]
            if any(cell not in ("-", "failed") for cell in cells) or ratio == "ratio":
                rows[ratio] = f"| {name} | " + " | ".join(cells) + " |"
        if shared(docs) and "cpu_ratio" in rows:  # of this target: another one's rates are all that it has
            del rows["ratio"]
        lines += rows.values()
    return lines + [""] + fold(conditions_text(every))


def insert(text, lines):
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        raise SystemExit(f"side_by_side.py: the file has no lines '{BEGIN}' and '{END}' to put the table between")
    return text[:begin] + BEGIN + "\n" + "\n".join(lines) + "\n" + text[end:]


def main(args):
    option, path = None, None
    if args[:1] in (["--into"], ["--check"]) and len(args) > 1:
        option, path, args = args[0], args[1], args[2:]
    if not args or args[0].startswith("-"):
        raise SystemExit(__doc__)
    docs = []
    for result in args:
        with open(result, encoding="utf-8") as f:
            docs.append(json.load(f))
    lines = table(docs)
    if not option:
        print("\n".join(lines))
        return
    with open(path, encoding="utf-8") as f:
        old = f.read()
    text = insert(old, lines)
    if option == "--into":
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    elif text != old:
        raise SystemExit(f"side_by_side.py: the table in {path} is not that of {' '.join(args)}: run this with --into instead")


if __name__ == "__main__":
    main(sys.argv[1:])
