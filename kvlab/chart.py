# SPDX-License-Identifier: Apache-2.0
"""chart.py -- charts as SVG: lines, bars and a heat map. They know numbers and labels, and nothing of kv-bench.

A chart is 440 units wide: its text of 13 units is readable on a telephone, and three charts stand side by side on a
screen. Colours are classes, so that a page and a file have the same rules, also for converters to PNG. Labels may come
from anywhere: all text is escaped.
"""
import dataclasses
import math

WIDTH, HEIGHT = 440, 280
LEFT, RIGHT, TOP, BOTTOM = 66, 16, 56, 46
TICKS_MAX = 12
BAR_HEIGHT = 24
LETTER, LETTER_WIDE = 7.5, 9  # width of a letter: usual, and of names that may be all m
LABEL_LETTERS = 24
LINES_MAX = 4

STYLE = (
    "svg text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
    ".kb{fill:#ffffff}.kt{fill:#1b1f24}.km{fill:#57606a}svg .kh{font-weight:600;font-size:14px}"
    ".kg{stroke:#e3e6ea;stroke-width:1}.kl{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
    ".s0{stroke:#0b62c4}.s1{stroke:#bc4c00}.s2{stroke:#1a7f37}.s3{stroke:#8250df}"
    ".f0{fill:#0b62c4}.f1{fill:#bc4c00}.f2{fill:#1a7f37}.f3{fill:#8250df}.kx{fill:#cf222e;fill-opacity:.16}"
    ".ke{stroke:#cf222e;stroke-width:1.5;stroke-dasharray:4 3}.kw{fill:#cf222e}"
    "@media screen and (prefers-color-scheme:dark){"
    ".kb{fill:#161b22}.kt{fill:#e6edf3}.km{fill:#9da7b3}.kg{stroke:#2d343d}"
    ".s0{stroke:#6cb6ff}.s1{stroke:#ffa657}.s2{stroke:#7ee787}.s3{stroke:#d2a8ff}"
    ".f0{fill:#6cb6ff}.f1{fill:#ffa657}.f2{fill:#7ee787}.f3{fill:#d2a8ff}.kx{fill:#ff7b72;fill-opacity:.25}"
    ".ke{stroke:#ff7b72}.kw{fill:#ff7b72}}")


def escape(text):
    """Text for HTML and SVG, in elements and in quotes. Control characters become blanks."""
    out = "".join(" " if ord(c) < 0x20 or ord(c) == 0x7F else c for c in text or "")
    for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        out = out.replace(char, entity)
    return out.encode("utf-8", "replace").decode()


def _steps(value, units):
    level = 0
    while abs(value) >= 999.5 and level + 1 < len(units):
        value /= 1000
        level += 1
    return value, level


def number(value, unit, narrow=False):
    """As charts write it: "81.7k", "377 us", "12 s", "99.9 %". narrow: at most three characters and a letter."""
    if unit == "ns":
        value, level = _steps(value, "....")
        return "%.3g %s" % (value, ("ns", "us", "ms", "s")[level])
    if unit == "s":
        return "%.4g s" % value
    if unit == "share":
        return "%.7g %%" % (100 * value)
    value, level = _steps(value, ".kMGT")
    digits = "%.*f" % (abs(value) < 9.95 and level > 0, value) if narrow else "%.3g" % value
    return digits + ("", "k", "M", "G", "T")[level]


@dataclasses.dataclass
class Axis:
    label: str
    unit: str  # "count", "ns", "s" or "share"
    scale: str = "linear"  # or "log", or "nines": 0 %, 90 %, 99 %, ... from shares of 0 to below 1
    from_zero: bool = False


@dataclasses.dataclass
class Line:
    """points: (x, y); one with NAN is left out, and the line broken there. bars: columns, each from the x before."""
    name: str
    points: list
    bars: bool = False


@dataclasses.dataclass
class Mark:
    """Something that happened from one x to another; with a label: at the first x."""
    start: float
    end: float
    label: str = None


class Range:
    """An axis with its ticks, as it lies in the picture."""

    def __init__(self, axis, values, start, end, is_x):
        self.axis, self.start, self.end, self.ticks = axis, start, end, []
        places = [p for p in map(self.placed, values) if math.isfinite(p)]
        self.low, self.high = (min(places), max(places)) if places else (0.0, 1.0)
        if axis.from_zero or axis.scale == "nines":
            self.low = 0.0
        if axis.from_zero and not is_x:
            self.high *= 1.05
        if self.high - self.low < 1e-9 * max(abs(self.high), 1.0):
            self.low -= 0.2 if axis.scale == "log" else 0
            self.high += 1 if axis.scale == "linear" else 0.2
        {"linear": self._ticks_linear, "log": self._ticks_log, "nines": self._ticks_nines}[axis.scale]()

    def placed(self, value):
        if self.axis.scale == "log":
            return math.log10(value) if value > 0 else math.nan
        if self.axis.scale == "nines":
            return -math.log10(1 - value) if value < 1 else math.nan
        return value

    def at(self, value):
        place = (self.placed(value) - self.low) / (self.high - self.low)
        return self.start + place * (self.end - self.start) if math.isfinite(place) else math.nan

    def _tick(self, value):
        place, slack = self.placed(value), 1e-9 * (self.high - self.low)
        if len(self.ticks) < TICKS_MAX and self.low - slack <= place <= self.high + slack:
            self.ticks.append(value)

    def _ticks_even(self, low, high):
        raw = (high - low) / 4
        if not (raw > 0 and math.isfinite(raw)):
            return
        ten = 10.0 ** math.floor(math.log10(raw))
        step = ten * next((s for s in (1, 2, 5) if raw / ten <= s), 10) if ten > 0 else raw
        value = math.ceil(low / step) * step
        for _ in range(TICKS_MAX):  # counted, since a step may be lost in rounding
            if value > high + step * 1e-9:
                break
            self._tick(0.0 if abs(value) < step * 1e-9 else value)
            value += step

    def _ticks_linear(self):
        self._ticks_even(self.low, self.high)

    def _ticks_decades(self, parts, step):
        self.ticks = []
        power = math.floor(self.low)
        while power <= self.high:
            for part in parts:
                self._tick(part * 10.0 ** power)
            power += step

    def _ticks_log(self):
        """Two ticks say little of a scale: with fewer than three powers of ten there are 2 and 5 as well, and where
        even these are too few, even steps."""
        decades = self.high - self.low
        self._ticks_decades((1, 2, 5) if decades < 2.5 else (1,), 2 if decades > 8 else 1)
        if len(self.ticks) < 3:
            self._ticks_decades((1, 2, 5), 1)
        if len(self.ticks) < 3:
            self.ticks = []
            self._ticks_even(10.0 ** self.low, 10.0 ** self.high)

    def _ticks_nines(self):
        for power in range(min(int(self.high) + 1, TICKS_MAX)):
            self._tick(1 - 10.0 ** -power)


def _words(x, y, css, anchor, text):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{css}" text-anchor="{anchor}">{escape(text)}</text>\n'


def _picture(title, height, body, alone):
    """alone: a file of its own, with the rules in it."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}"{" width=" + chr(34) + "880" + chr(34) if alone else ""}'
            f' role="img" aria-label="{escape(title)}">\n' + (f"<style>{STYLE}</style>\n" if alone else "") +
            f'<rect class="kb" width="{WIDTH}" height="{height:.0f}" rx="6"/>\n' + _words(14, 22, "kt kh", "start", title) +
            "".join(body) + "</svg>\n")


def _label(axis):
    """The label of an uneven axis has its scale."""
    return axis.label + {"linear": "", "log": " (log)", "nines": " (log of the rest)"}[axis.scale]


def _axes(x, y):
    last = -100.0
    for tick in y.ticks:
        place = y.at(tick)
        yield f'<path class="kg" d="M{LEFT} {place:.1f}H{WIDTH - RIGHT}"/>\n'
        yield _words(LEFT - 6, place + 4, "km", "end", number(tick, y.axis.unit))
    for tick in x.ticks:
        place, text = x.at(tick), number(tick, x.axis.unit)
        half = 3.8 * len(text)
        yield f'<path class="kg" d="M{place:.1f} {TOP}V{HEIGHT - BOTTOM}"/>\n'
        if place - half >= last + 6 and place + half <= WIDTH - 2:
            yield _words(place, HEIGHT - BOTTOM + 17, "km", "middle", text)
            last = place + half
    yield _words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 9, "km", "middle", _label(x.axis))
    yield _words(14, 42, "km", "start", _label(y.axis))


def _marks(marks, x):
    """A label that would cover the one before is left out; its line stays."""
    free_from = -math.inf
    for mark in marks:
        start, end = max(x.at(mark.start), x.start), min(x.at(mark.end), x.end)
        wide = LETTER * len(mark.label or "")
        if not mark.label and end >= start:
            yield f'<rect class="kx" x="{start:.1f}" y="{TOP}" width="{max(end - start, 2.0):.1f}" height="{HEIGHT - BOTTOM - TOP}"/>\n'
        if not mark.label or start > x.end:
            continue
        yield f'<path class="ke" d="M{start:.1f} {TOP}V{HEIGHT - BOTTOM}"/>\n'
        left = start + wide > WIDTH - 2
        if (start - wide if left else start) >= free_from:
            yield _words(start - 4 if left else start + 4, TOP + 11, "kw", "end" if left else "start", mark.label)
            free_from = start if left else start + wide


def _line(line, index, x, y):
    """A lone point is a dot."""
    drawn = [(x.at(px), y.at(py)) for px, py in line.points] + [(math.nan, math.nan)]
    path, pen = [], False
    for (px, py), after in zip(drawn, drawn[1:]):
        if not (math.isfinite(px) and math.isfinite(py)):
            pen = False
            continue
        goes_on = math.isfinite(after[0]) and math.isfinite(after[1])
        path.append(f"{'L' if pen else 'M'}{px:.1f} {py:.1f}{'' if pen or goes_on else 'h0'}")
        pen = True
    yield f'<path class="kl s{index}" d="{"".join(path)}"/>\n'


def _columns(line, index, x, y):
    before = math.nan
    for px, py in ((x.at(px), y.at(py)) for px, py in line.points):
        if not (math.isfinite(px) and math.isfinite(py)):
            continue
        left = min(before, px - 1.5) if math.isfinite(before) else px - 3
        yield f'<rect class="f{index}" x="{left:.1f}" y="{py:.1f}" width="{px - left:.1f}" height="{max(y.start - py, 0.5):.1f}"/>\n'
        before = px


def _legend(lines):
    right = WIDTH - RIGHT
    for i, line in reversed(list(enumerate(lines)) if len(lines) > 1 else []):
        yield _words(right, 42, "kt", "end", line.name)
        right -= 7 * len(line.name) + 18
        yield f'<rect class="f{i}" x="{right:.1f}" y="32" width="10" height="10" rx="2"/>\n'
        right -= 12


def chart(title, x, y, lines, marks=(), alone=False):
    points = [p for line in lines for p in line.points]
    x = Range(x, [p[0] for p in points], LEFT, WIDTH - RIGHT, True)
    y = Range(y, [p[1] for p in points], HEIGHT - BOTTOM, TOP, False)
    body = list(_axes(x, y)) + list(_marks(marks, x))
    for i, line in enumerate(lines):
        body += (_columns if line.bars else _line)(line, i, x, y)
    return _picture(title, HEIGHT, body + list(_legend(lines)), alone)


def bars(title, rows, unit, alone=False):
    """rows: (label, value of 0 or more)."""
    most = max(value for _, value in rows)
    left = max([86] + [16 + LETTER_WIDE * min(len(label), LABEL_LETTERS) for label, _ in rows])
    wide, body = WIDTH - left - 74, []
    for i, (label, value) in enumerate(rows):
        y, width = 40 + BAR_HEIGHT * i, max(wide * value / most, 1.0) if value > 0 else 0
        body.append(_words(left - 8, y + 15, "kt", "end", label))
        body.append(f'<rect class="f0" x="{left:.0f}" y="{y + 2:.0f}" width="{width:.1f}" height="{BAR_HEIGHT - 6}" rx="2"/>\n')
        body.append(_words(left + width + 6, y + 15, "km", "start", number(value, unit)))
    return _picture(title, 40 + BAR_HEIGHT * len(rows) + 8, body, alone)


def heat(title, x_label, y_label, columns, rows, value, alone=False):
    """columns, rows: names. value: {(row, column): number}. Shades are by the logarithm: rows differ by decades."""
    left, top, row_height = 76, 72, 30
    wide = (WIDTH - left - RIGHT) / max(len(columns), 1)
    logs = [math.log(v) for v in value.values() if v > 0]
    body = [_words(14, 42, "km", "start", y_label), _words(WIDTH - RIGHT, 42, "km", "end", x_label)]
    body += [_words(left + wide * (c + 0.5), top - 8, "km", "middle", name) for c, name in enumerate(columns)]
    for r, name in enumerate(rows):
        y = top + row_height * r
        body.append(_words(left - 8, y + 19, "kt", "end", name))
        for c in range(len(columns)):
            v = value.get((r, c))
            if v is None:
                continue
            spread = max(logs) - min(logs) if v > 0 else 0
            shade = (math.log(v) - min(logs)) / spread if spread > 0 else float(v > 0)
            body.append(f'<rect class="f0" fill-opacity="{0.06 + 0.44 * shade:.2f}" x="{left + wide * c + 1:.1f}" y="{y + 1:.1f}" '
                        f'width="{wide - 2:.1f}" height="{row_height - 2:.1f}" rx="2"/>\n')
            body.append(_words(left + wide * (c + 0.5), y + 19, "kt", "middle", number(v, "count", narrow=wide < 48)))
    return _picture(title, top + row_height * len(rows) + 14, body, alone)
