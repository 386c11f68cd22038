#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""english.py [FOLDER...] -- how plain the English is: for the product's comments, its messages and the documents.

For each part: words; how often per 10,000 words "what" and "that is/has/..." occur, the two marks of a sentence that must
be read twice; for C also the words of comments per line of code. --most N lists the N files with the most of both marks.
"""
import argparse
import re
import subprocess

PRODUCT = "base host probe loop wire bootstrap local engine store kvclient kvserver kvbench kvcli kvdoctor".split()
WHAT = re.compile(r"\bwhat\b", re.I)
THAT = re.compile(r"\b(?:that|which|who) (?:is|are|has|have|had|was|were)\b", re.I)
TOKEN = re.compile(r'(/\*.*?\*/|//[^\n]*)|("(?:\\.|[^"\\\n])*")|(\'(?:\\.|[^\'\\\n])*\')', re.S)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


def comments_and_code(text):
    """The comments, the string literals, and the number of lines with code."""
    comments, strings = [], []

    def take(match):
        if match[1]:
            comments.append(re.sub(r"\n\s*\*", "\n", match[1].strip("/*")))
            return "\n" * match[1].count("\n")
        if match[2] and " " in match[2]:
            strings.append(match[2])
        return "x"

    code = TOKEN.sub(take, text)
    return "\n".join(comments), "\n".join(strings), sum(bool(line.strip()) for line in code.splitlines())


def prose(text):
    """A Markdown page without its blocks of commands and its code."""
    return re.sub(r"`[^`\n]*`", "x", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("folders", nargs="*")
    options = parser.parse_args()
    listed = subprocess.run(["git", "ls-files", *options.folders], capture_output=True, text=True, check=True).stdout
    parts, files, lines = {}, [], 0
    for path in listed.splitlines():
        top = path.split("/")[0]
        if top in PRODUCT and path.endswith((".c", ".h", ".S")):
            with open(path, encoding="utf-8") as file:
                comments, strings, code = comments_and_code(file.read())
            lines += code
            found = [("comments", comments), ("messages", strings)]
        elif path.endswith(".md"):
            with open(path, encoding="utf-8") as file:
                found = [("documents", prose(file.read()))]
        else:
            continue
        for part, text in found:
            words, what, that = len(WORD.findall(text)), len(WHAT.findall(text)), len(THAT.findall(text))
            parts[part] = [a + b for a, b in zip(parts.get(part, [0, 0, 0]), [words, what, that])]
            files.append((what + that, what, that, path, part))
    print(f"{'part':12}{'words':>9}{'what':>8}{'that is':>9}   per 10,000 words")
    for part, (words, what, that) in parts.items():
        print(f"{part:12}{words:9,}{what * 1e4 / max(words, 1):8.1f}{that * 1e4 / max(words, 1):9.1f}")
    if lines:
        print(f"words of comments per line of code: {parts['comments'][0] / lines:.2f} ({lines:,} lines)")
    for count, what, that, path, part in sorted(files, reverse=True)[: options.most]:
        print(f"{what:5} what {that:5} that is   {path} ({part})")


main()
