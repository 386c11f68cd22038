#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""abi.py -- the ABI of libkvrail as text: where each field of each public struct lies, the numbers
of the enums, and the types of the functions. debian/libkvrail0.abi holds it, beside the list of
symbols.

    scripts/abi.py --print [HEADER...]   the ABI of the headers (kvclient/kvclient.h and base/codes.h)
    scripts/abi.py --check [HEADER...]   compare it with debian/libkvrail0.abi; status 1: it changed
    scripts/abi.py --write VERSION       announce it (`make abi`): write debian/libkvrail0.abi, and
                                         new functions into debian/libkvrail0.symbols

The headers tell the names; the compiler ($CC, else cc) tells the numbers, in a program that is
made of the names and run. Any C11 compiler will do. The file is for machines with 64-bit
pointers, all of which lay these structs out alike; elsewhere --check says so and compares
nothing.

A change breaks programs that run with an older library or were compiled with an older header,
unless it is one of these: a function, a struct or a number more; a field more at the end of a
struct that begins with its `size`; a field in the place of a reserved one.
"""

import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HEADERS = [os.path.join(TREE, "kvclient/kvclient.h"), os.path.join(TREE, "base/codes.h")]
ABI = os.environ.get("KVRAIL_ABI") or os.path.join(TREE, "debian/libkvrail0.abi")
SYMBOLS = os.environ.get("KVRAIL_SYMBOLS") or os.path.join(TREE, "debian/libkvrail0.symbols")
HEAD = """# SPDX-License-Identifier: Apache-2.0
# The ABI of libkvrail.so.0 on 64-bit machines. Made by scripts/abi.py; `make abi` announces a change.
# struct: size, alignment; a field: offset, size, type, name. enum: a number for each name.
"""
WORDS = {"int", "char", "void", "bool", "unsigned", "long", "short", "float", "double"}


def preprocessed(headers: list[str]) -> str:
    """The declarations of these headers alone: what they include from the system is left out."""
    cc = shlex.split(os.environ.get("CC") or "cc")
    real = {os.path.realpath(h) for h in headers}
    out: list[str] = []
    for header in headers:
        run = subprocess.run(
            [*cc, "-std=c11", "-E", "-I", TREE, "-DKVC_API=", header],
            capture_output=True,
            text=True,
            check=True,
        )
        ours = False
        for line in run.stdout.splitlines():
            if m := re.match(r'# \d+ "([^"]*)"', line):
                ours = os.path.realpath(m.group(1)) == os.path.realpath(header)
            elif ours and not line.startswith("#"):
                out.append(line)
    assert real
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", "\n".join(out))
    return re.sub(r"\s+", " ", text)


def top_level(text: str, separator: str) -> list[str]:
    """Cut the text at separators that stand in no bracket."""
    parts, depth, begun = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "({[" and 1 or c in ")}]" and -1 or 0
        if c == separator and depth == 0:
            parts.append(text[begun:i])
            begun = i + 1
    return [p.strip() for p in [*parts, text[begun:]] if p.strip()]


def type_of(parameter: str) -> str:
    """A parameter without its name: to rename one changes no ABI."""
    if m := re.match(r"(.*)\(\* ?\w*\) ?\((.*)\)$", parameter):
        inner = ", ".join(type_of(p) for p in top_level(m.group(2), ","))
        return f"{m.group(1).strip()} (*)({inner})"
    m = re.match(r"(.*[\s*])(\w+)((?:\[[^]]*\])*)$", parameter)
    if (
        not m
        or m.group(2) in WORDS
        or re.fullmatch(r"(?:const )?(?:struct|enum|union) ?", m.group(1))
    ):
        return parameter
    return (
        (m.group(1).strip() + ("*" if m.group(3) else "")).replace(" *", "*").replace("*", " *", 1)
    )


def fields_of(body: str) -> list[tuple[str, str]]:
    """(type, name) of each field, in order."""
    fields: list[tuple[str, str]] = []
    for declaration in top_level(body, ";"):
        if m := re.match(r"(.*)\(\* ?(\w+)\) ?\((.*)\)$", declaration):
            fields.append((type_of(declaration), m.group(2)))
            continue
        if re.search(r":\s*\d+\s*(,|$)", declaration):
            raise SystemExit(
                f"abi.py: '{declaration}' is a bit-field, whose place C cannot tell and compilers "
                "choose: use a whole integer"
            )
        first, *more = top_level(declaration, ",")
        m = re.match(r"(.*?)([\s*]+)(\w+)((?:\[[^]]*\])*)$", first)
        if not m:
            raise SystemExit(f"abi.py: cannot read the field '{declaration}'")
        for declarator in [m.group(2).strip() + m.group(3) + m.group(4), *more]:
            d = re.match(r"([\s*]*)(\w+)((?:\[[^]]*\])*)$", declarator)
            if not d:
                raise SystemExit(f"abi.py: cannot read the field '{declaration}'")
            pointer = d.group(1).replace(" ", "")
            fields.append(
                (f"{m.group(1)}{' ' + pointer if pointer else ''}{d.group(3)}", d.group(2))
            )
    return fields


def program(text: str, headers: list[str]) -> str:
    """A C program that prints the ABI."""
    lines = ["#include <stdalign.h>", "#include <stdio.h>", *(f'#include "{h}"' for h in headers)]
    lines += ["int main(void)", "{"]
    functions: list[str] = []
    for d in top_level(re.sub(r'extern "C" \{', "", text), ";"):
        if m := re.fullmatch(r"struct (\w+) ?\{(.*)\}", d):
            name, body = m.groups()
            lines.append(
                f'printf("struct {name} %zu %zu\\n", sizeof(struct {name}), alignof(struct {name}));'
            )
            for kind, field in fields_of(body):
                at = f"offsetof(struct {name}, {field}), sizeof(((struct {name} *)0)->{field})"
                lines.append(f'printf("\\t%zu %zu %s %s\\n", {at}, "{kind}", "{field}");')
        elif m := re.fullmatch(r"enum ?(\w*) ?\{(.*)\}", d):
            tag = m.group(1)
            size = f"sizeof(enum {tag})" if tag else "(size_t)0"
            lines.append(f'printf("enum{" " + tag if tag else ""}");')
            lines.append(f'if ({size}) printf(" %zu", {size}); puts("");')
            for one in top_level(m.group(2), ","):
                value = one.split("=")[0].strip()
                lines.append(f'printf("\\t%s %lld\\n", "{value}", (long long){value});')
        elif m := re.fullmatch(r"((?:const )?(?:(?:struct|enum) )?\w+[\s*]+)(\w+) ?\((.*)\)", d):
            parameters = ", ".join(type_of(p) for p in top_level(m.group(3), ","))
            functions.append(f"{m.group(2)}: {m.group(1).strip()} ({parameters})")
        elif not re.fullmatch(r"struct \w+", d):
            raise SystemExit(f"abi.py: cannot read '{d}'")
    lines += [f'puts("{f}");' for f in sorted(functions)]
    return "\n".join([*lines, "return 0;", "}", ""])


def abi(headers: list[str]) -> str:
    cc = shlex.split(os.environ.get("CC") or "cc")
    with tempfile.TemporaryDirectory() as scratch:
        source, binary = os.path.join(scratch, "abi.c"), os.path.join(scratch, "abi")
        with open(source, "w") as f:
            f.write(program(preprocessed(headers), [os.path.abspath(h) for h in headers]))
        subprocess.run(
            [*cc, "-std=c11", "-I", TREE, "-o", binary, source],
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
        return HEAD + subprocess.run([binary], capture_output=True, text=True, check=True).stdout


def parsed(text: str) -> dict[str, dict[str, str]]:
    """{"struct kvc_item": {"": "size alignment", ".field": "offset size type"}, "functions": ...}.
    An enum without a name is called by its first number."""
    things: dict[str, dict[str, str]] = {"functions": {}}
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    at = things["functions"]
    for i, line in enumerate(lines):
        if line[0] == "\t":
            words = line.split()
            if at.get("") is not None and "struct" in at["kind"]:
                at["." + words[-1]] = " ".join(words[:-1])
            else:
                at["." + words[0]] = words[1]
        elif m := re.match(r"(struct \w+) (.*)", line):
            at = things[m.group(1)] = {"kind": "struct", "": m.group(2)}
        elif line.startswith("enum"):
            words = line.split()
            name = f"enum {words[1]}" if len(words) > 1 else f"enum of {lines[i + 1].split()[0]}"
            at = things[name] = {"kind": "enum", "": words[2] if len(words) > 2 else "0"}
        else:
            name, _, kind = line.partition(": ")
            things["functions"][name] = kind
    return things


def breaks(old: dict[str, dict[str, str]], new: dict[str, dict[str, str]]) -> list[str]:
    """What of the change breaks programs, a sentence each."""
    wrong: list[str] = []
    for name, was in old["functions"].items():
        now = new["functions"].get(name)
        if now != was:
            wrong.append(f"{name} is gone" if now is None else f"{name} has another type")
    for thing, was_all in old.items():
        if thing == "functions":
            continue
        now_all = new.get(thing)
        if now_all is None:
            wrong.append(f"{thing} is gone")
            continue
        struct = was_all["kind"] == "struct"
        for field, was in was_all.items():
            now = now_all.get(field)
            if field in ("", "kind") or now == was or (struct and field.startswith(".reserved")):
                continue
            what = f"{thing}: {field[1:]}"
            wrong.append(f"{what} is gone" if now is None else f"{what} was {was}, and is {now}")
        was_size, now_size = was_all[""].split(), now_all[""].split()
        if was_size == now_size:
            continue
        sized = struct and was_all.get(".size", "").startswith("0 ")
        grew = struct and int(now_size[0]) > int(was_size[0]) and was_size[1] == now_size[1]
        if not (sized and grew):
            why = (
                ""
                if not grew or sized
                else ", and has no `size` to tell old programs from new ones"
            )
            wrong.append(f"{thing} had {was_size[0]} bytes, and has {now_size[0]}{why}")
    return wrong


def difference(old: str, new: str) -> str:
    """The lines that changed, each below the struct or enum that it is of."""
    out, heading, shown = [], "", ""
    for line in difflib.ndiff(old.splitlines(), new.splitlines()):
        if line[0] == "?":
            continue
        if line[2:3] != "\t":
            heading = line
        if line[0] != " ":
            if line[2:3] == "\t" and heading != shown and heading[0] == " ":
                out.append(heading)
            shown = heading
            out.append(line)
    return "\n".join(out)


def symbols_add(new: dict[str, dict[str, str]], version: str) -> None:
    with open(SYMBOLS) as f:
        head, *lines = f.read().splitlines()
    known = {m.group(1) for line in lines if (m := re.match(r" (\w+)@", line))}
    lines += [f" {name}@Base {version}" for name in new["functions"] if name not in known]
    with open(SYMBOLS, "w") as f:
        f.write("\n".join([head, *sorted(lines)]) + "\n")
    for name in sorted(known - set(new["functions"])):
        print(f"abi.py: debian/libkvrail0.symbols has {name}, the header has not: take it out")


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in ("--print", "--check", "--write"):
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    if sys.maxsize < 1 << 32:
        print("abi.py: the ABI in the tree is for 64-bit machines: nothing is compared here")
        return 0
    write = sys.argv[1] == "--write"
    new = abi(HEADERS if write or len(sys.argv) < 3 else sys.argv[2:])
    if sys.argv[1] == "--print":
        print(new, end="")
        return 0
    old = open(ABI).read() if os.path.exists(ABI) else HEAD
    if old != new:
        print(difference(old, new))
        wrong = breaks(parsed(old), parsed(new))
        print("\n".join(f"breaks: {w}" for w in wrong) or "It breaks no program.")
        if not write:
            print(
                "The ABI is not that of debian/libkvrail0.abi. If it is meant to be so, `make abi` "
                "announces it" + ("; from 1.0 on it takes another soname, too." if wrong else ".")
            )
            return 1
        with open(ABI, "w") as f:
            f.write(new)
    if write:
        symbols_add(parsed(new), sys.argv[2] if len(sys.argv) > 2 else "0")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FileNotFoundError as e:
        sys.exit(f"abi.py: {e.filename}: {e.strerror}; CC names the compiler")
    except subprocess.CalledProcessError as e:
        sys.exit(
            f"abi.py: the compiler does not take what was made of the headers:\n{e.stderr or ''}"
        )
