# SPDX-License-Identifier: Apache-2.0
"""text.py -- numbers and lines as the C programs write them (base/units.c, base/wrap.c)."""
import errno
import math
import os
import sys

COLUMNS = 80


def finite(value):
    return isinstance(value, (int, float)) and math.isfinite(value)


def whole(value):
    """The nearest integer of a number that a file may have made huge."""
    return int(min(max(value, 0.0), 1e18) + 0.5)


def count(value):
    return f"{whole(value):,}"


def count_of(n, noun):
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def scaled(value, step, units, trim=False):
    """Three digits. The unit is chosen after rounding, so "1000 us" never appears."""
    level = 0
    while level + 1 < len(units) and value >= step - 0.5:
        value /= step
        level += 1
    decimals = 0 if level == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    digits = "%.*f" % (decimals, value)
    if trim and decimals:
        digits = digits.rstrip("0").rstrip(".")
    return f"{digits} {units[level]}"


def size(value):
    return scaled(float(whole(value)), 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"), trim=True)


def duration(ns):
    return scaled(float(whole(ns)), 1000, ("ns", "us", "ms", "s"))


def rate(value):
    if not 0 <= value < 1e21:
        return "n/a"
    return scaled(value, 1000, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"))


def printable(text, most=200):
    """Without bytes that could forge a line or drive a terminal."""
    names = {10: "\\n", 13: "\\r", 9: "\\t"}
    out = "".join(chr(b) if 0x20 <= b < 0x7F else names.get(b, f"\\x{b:02x}") for b in text.encode("utf-8", "replace"))
    return out if len(out) <= most else out[:most] + "..."


def wrap(head, text, indent=0, out=None):
    """Print head and text, broken at blanks so that no line is wider than COLUMNS. A longer word stays whole."""
    line, left = head, " " * (indent or len(head))
    lines = []
    for i, word in enumerate(text.split(" ")):
        if i and len(line) + 1 + len(word) > COLUMNS:
            lines.append(line)
            line = left + word
        else:
            line += (" " if i else "") + word
    print("\n".join(lines + [line]), file=out or sys.stdout)


class Out:
    """Standard output (1) or error (2). Text that gets lost is remembered and raises nothing."""

    def __init__(self, fd):
        self.fd, self.text, self.lost = fd, "", False

    def isatty(self):
        return os.isatty(self.fd)

    def write(self, text):
        self.text += text
        if self.fd == 2:
            self.flush()

    def flush(self):
        data, self.text = self.text.encode("utf-8", "replace"), ""
        try:
            while data:
                data = data[os.write(self.fd, data):]
        except OSError as error:
            self.lost |= error.errno != errno.EPIPE  # as with | head: the reader has enough
