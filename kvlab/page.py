# SPDX-License-Identifier: Apache-2.0
"""page.py -- a result as one HTML page: verdict, figures, charts, conditions, options.

No script, no font, no link to anything outside; a policy in the page forbids browsers to load any. All text of the
document is escaped. A file may be anybody's: a missing number leaves its cell empty.
"""
import math
import re

import chart
from chart import escape
from document import Refused, at, is_sweep, items, measured, members, number, phases, text
from figures import FIGURES
from text import count, rate, size

STYLE = """*{box-sizing:border-box}body{margin:0 auto;max-width:1280px;padding:20px 16px 40px;\
font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;background:#f3f4f6;color:#1b1f24}\
h1{font-size:22px;margin:0}h2{font-size:17px;margin:28px 0 8px}p{margin:4px 0}.quiet{color:#57606a}\
.verdict{margin:14px 0;padding:10px 14px;border-radius:6px;border-left:5px solid #1a7f37;background:#fff;\
overflow-wrap:anywhere}\
.verdict.bad{border-color:#cf222e}.verdict.cut{border-color:#9a6700}.verdict ul{margin:4px 0;padding-left:20px}\
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:14px}\
.charts svg{width:100%;height:auto;display:block}\
.wide{overflow-x:auto;background:#fff;border-radius:6px}table{border-collapse:collapse;width:100%}\
th,td{padding:6px 12px;text-align:right;border-bottom:1px solid #e3e6ea;white-space:nowrap}\
th:first-child,td:first-child{text-align:left}th{font-weight:600}\
.wide th,.names td:first-child{white-space:normal}.quiet span{display:inline-block;max-width:100%;overflow-wrap:anywhere}\
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,340px),1fr));gap:0 24px;margin:0;\
padding:8px 14px;background:#fff;border-radius:6px}\
dl div{display:flex;gap:12px;justify-content:space-between;padding:3px 0;border-bottom:1px solid #e3e6ea}\
dt{color:#57606a}dd{margin:0;text-align:right;overflow-wrap:anywhere}
@media screen and (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}\
.quiet,dt{color:#9da7b3}.verdict,.wide,dl{background:#161b22}th,td,dl div{border-color:#2d343d}\
.verdict{border-color:#7ee787}.verdict.bad{border-color:#ff7b72}.verdict.cut{border-color:#d29922}}
@media (max-width:600px){th,td{padding:6px 4px;font-size:13px}.less{display:none}\
td:first-child{white-space:normal}.names th{overflow-wrap:anywhere}}
@media print{body{background:#fff;padding:0;font-size:11px}.charts{grid-template-columns:1fr 1fr}\
svg,table,.verdict,dl div{break-inside:avoid}h2{break-after:avoid}}
"""

HEAD = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>kv-bench</title>
<style>
{STYLE}{chart.STYLE}</style></head><body>
"""


def quiet(line):
    return f'<p class="quiet">{escape(line)}</p>\n'


def note(strong, line, css=""):
    return f'<div class="verdict{css}"><strong>{escape(strong)}</strong>{" " + escape(line) if line else ""}</div>\n'


def table(title, head, rows, css="wide"):
    """head: names of columns; a narrow screen does not show those that begin with "-". rows: lists of texts."""
    less = [' class="less"' if name.startswith("-") else "" for name in head]
    body = "".join("<tr>" + "".join(f"<td{hide}>{escape(cell)}</td>" for cell, hide in zip(row, less)) + "</tr>\n" for row in rows)
    top = "".join(f"<th{hide}>{escape(name.lstrip('-'))}</th>" for name, hide in zip(head, less))
    return f'<h2>{escape(title)}</h2>\n<div class="{css}"><table><tr>{top}</tr>\n{body}</table></div>\n'


# Numbers as text; "" for a missing one.


def ns(value):
    return chart.number(value, "ns") if math.isfinite(value) else ""


def plain(value):
    return chart.number(value, "count") if math.isfinite(value) else ""


def per_s(value):
    return rate(value) if math.isfinite(value) else ""


def percent(value, form="%.3g %%"):
    return form % (100 * value) if math.isfinite(value) else ""


# ---- any object as pairs of name and value ----

UNITS = [("_bytes", True, size), ("_ns", True, ns), ("bytes_per_s", False, rate), ("_per_s", False, count),
         ("_s", True, lambda v: ns(1e9 * v)), ("_share", False, percent), ("_ratio", False, percent),
         ("_error", False, percent), ("_cores", False, lambda v: "%.2f" % v)]


def pair(name, value):
    """(name, text). A number whose name ends with its unit ("values_bytes") is written with it, and most names then do
    without the unit. None: the value has no text of its own."""
    n = number({"n": value}, "n")
    if 0 <= n < 1e18:
        for end, cut, form in UNITS:
            if name.endswith(end):
                return (name[:-len(end)] if cut else name), form(n)
    if isinstance(value, bool):
        return name, "yes" if value else "no"
    if isinstance(value, str):
        return name, value
    if isinstance(value, int):
        return name, str(value)
    return (name, "%.4g" % value) if isinstance(value, float) else (name, None)


def pairs(title, obj):
    rows = [pair(name, value) for name, value in (obj.items() if isinstance(obj, dict) else ())]
    rows = [f"<div><dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(line)}</dd></div>\n" for name, line in rows if line]
    return f"<h2>{escape(title)}</h2>\n<dl>\n{''.join(rows)}</dl>\n" if isinstance(obj, dict) and obj else ""


# ---- the head ----


def command(program, words):
    """As a shell takes it. Lines are broken between words only: an option has hyphens."""
    spans = []
    for word in words:
        if isinstance(word, str):
            quoted = word if re.fullmatch(r"[A-Za-z0-9_=+:,./@%-]+", word) else "'" + word.replace("'", "'\\''") + "'"
            spans.append(f" <span>{escape(quoted)}</span>")
    return escape(program) + "".join(spans)


def title(doc, program, where=""):
    run = at(doc, "run")
    line = ", ".join([text(run, "version") or "", text(run, "time") or ""]) + where
    return f'<h1>{escape(program)}</h1>\n{quiet(line)}<p class="quiet">{command(program, items(run, "options"))}</p>\n'


def verdict(doc):
    judged = members(doc, "verdict")
    problems, cut = [p for p in items(judged, "problems") if isinstance(p, str)], at(doc, "interrupted") is True
    if not judged:
        return ""
    if cut:
        strong, line = "Interrupted.", "These are figures of what was done until then, and not of the whole run."
    elif at(judged, "ok") is True:
        strong, line = "All well.", "No error, no miss and no wrong value that the run should not have."
    else:
        strong, line = "Failed.", ""
    out = note(strong, line, " bad" if problems else " cut" if cut else "")
    listed = "".join(f"<li>{escape(p)}</li>" for p in problems)
    return out.replace("</div>", f"<ul>{listed}</ul></div>") if problems else out


def shared(doc):
    c = at(doc, "conditions")
    others, cores = number(c, "others_cores"), number(c, "cores")
    if at(c, "shared_machine") is not True or not math.isfinite(others + cores):
        return ""
    return note("Shared machine.", f"Other processes kept {others:.1f} of {cores:.0f} cores busy meanwhile: these figures vary with it.", " cut")


# ---- the figures of a run ----

FIGURES_HEAD = ["", "ops/s", "bytes/s", "p50", "-p90", "p99", "-p99.9", "max", "-operations"]


def latency_cells(latency):
    return [ns(number(latency, name)) for name in ("p50", "p90", "p99", "p999", "max")]


def run_rows(doc):
    """Failed operations have no rate; "service" is the time of reads from their real start."""
    for name, phase in phases(doc):
        yield ([name, plain(number(phase, "ops_per_s")), per_s(number(phase, "bytes_per_s"))] +
               latency_cells(at(phase, "latency_ns")) + [plain(number(phase, "ops"))])
        for member, kind in (("service_ns", "service"), ("missed_ns", "missed"), ("failed_ns", "failed")):
            if at(phase, member) is not None:
                yield [f"{name}, {kind}", "", ""] + latency_cells(at(phase, member)) + [""]


def run_notes(doc):
    batch = number(at(doc, "config"), "batch")
    if at(doc, "phases", "read", "service_ns") is not None:
        yield quiet("Latency of reads counts from when they were due; service: from when they really began.")
    if 1 < batch < 1e9:
        yield quiet(f"A latency is of a batch of {batch:.0f} keys; operations are keys.")
    if at(doc, "trace") is not None:
        yield quiet("A latency is of all blocks found, or stored, for one request.")


def parts(doc):
    """Before and after the events of a replay."""
    names = (("before", "before the first event"), ("five_minutes", "in the five minutes after it"), ("later", "later"))
    trace = at(doc, "trace")
    if at(trace, "intervals") is None:
        return ""
    rows = []
    for member, name in names:
        part = at(trace, member)
        rows.append([name, plain(number(part, "requests")), percent(number(part, "hit_ratio"), "%.2f %%")] +
                    [ns(number(part, figure)) for figure in ("get_p50_ns", "get_p99_ns", "longest_ns")])
    return table("Events", ["", "requests", "hit ratio", "-p50 of gets", "p99 of gets", "longest call"], rows)


def runs(doc):
    found = number(at(doc, "runs"), "count")
    if not found > 1:
        return ""
    rows = []
    for member, name, form in (("ops_per_s", "ops/s", plain), ("bytes_per_s", "bytes/s", per_s),
                               ("p50_ns", "p50 of reads", ns), ("p99_ns", "p99 of reads", ns)):
        figure = at(doc, "runs", member)
        if figure is not None:
            rows.append([name] + [form(number(figure, n)) for n in ("median", "min", "max")] + [percent(number(figure, "spread"))])
    return (table(f"{found:.0f} runs", ["", "median", "-min", "-max", "spread"], rows) +
            quiet("Spread: largest less smallest, as a part of the median."))


SLO_OUTCOMES = {"kept": "kept", "late": "above the limit", "behind": "did not keep up", "errors": "errors or misses"}


def slo(doc):
    trials = sorted((t for t in items(doc, "slo", "trials") if number(t, "offered_per_s") > 0), key=lambda t: number(t, "offered_per_s"))
    if not items(doc, "slo", "trials"):
        return ""
    search, best = at(doc, "slo"), number(at(doc, "slo"), "rate_per_s")
    answer = count(best) + " per second" if math.isfinite(best) else "none that was tried"
    heading = f"Highest rate with p{100 * number(search, 'quantile'):.10g} within {ns(number(search, 'limit_ns'))}: {answer}"
    rows = [[plain(number(t, "offered_per_s")), plain(number(t, "achieved_per_s")), ns(number(t, "latency_ns")),
             ns(number(t, "service_ns")), plain(number(t, "ops")), SLO_OUTCOMES.get(text(t, "why"), "")] for t in trials]
    return table(heading, ["offered/s", "achieved/s", "latency", "-service", "-ops", ""], rows)


def charts(doc):
    drawn = []
    for draw in FIGURES.values():
        try:
            drawn.append(draw(doc, False))
        except Refused:
            pass
    wide = ' style="max-width:680px"' if is_sweep(doc) else ""  # it has one
    yield f'<h2>Charts</h2>\n<div class="charts"{wide}>\n{"".join(drawn)}</div>\n'
    if is_sweep(doc):
        return
    if len(items(measured(doc), "series", "windows")) < 2:
        yield quiet("No chart over time: the phase was over within one window (--interval).")
    if items(doc, "events"):
        yield quiet("Red lines are what --event did to a server.")
    if at(doc, "keep_going", "outages") is not None:
        yield quiet("Red bands are outages: from the first call that failed to the first that was served again.")


def model(doc):
    """Computed figures are marked as such."""
    m = members(doc, "model")
    out = pairs("Model", m)
    if math.isfinite(number(m, "prefix_load_s")):
        first = "a batch's" if number(at(doc, "config"), "batch") > 1 else "a GET's"
        out += quiet(f"Prefix load is computed: {first} median, then the rest at the rate of the reads. It is of one rank.")
    if "break_even_tokens" in m and m["break_even_tokens"] is None:
        out += quiet("Break-even: none, prefill is faster at every length.")
    return out


def conditions(doc):
    out, excluded = pairs("Conditions", at(doc, "conditions")), [e for e in items(doc, "conditions", "excluded") if isinstance(e, str)]
    return out + quiet(f"In no figure: {'; '.join(excluded)}.") if excluded else out


# ---- a sweep ----


def point_shared(point):
    return any(at(run, "shared_machine") is True for run in items(point, "runs"))


def sweep(doc):
    points = items(doc, "sweep", "points")
    found, rows = sum(map(point_shared, points)), []
    if found:
        yield note("Shared machine.", f"Other processes kept cores busy in {found} of {sum(bool(items(p, 'runs')) for p in points)} "
                                      "combinations: these figures vary with it.", " cut")
    for p in points:
        value, state = number(p, "value_size"), text(p, "state") or ""
        state += (": " + text(p, "reason") if text(p, "reason") else "") + (" *" if point_shared(p) else "")
        rows.append([size(value) if 1 <= value < 1e18 else "", plain(number(p, "num_clients")), plain(number(p, "num_workers")),
                     plain(number(p, "ops_per_s")), per_s(number(p, "bytes_per_s")), ns(number(p, "p50_ns")), ns(number(p, "p99_ns")),
                     percent(number(at(p, "spread", "ops_per_s"), "spread")), state])
    yield table("Figures", ["value", "clients", "workers", "ops/s", "-bytes/s", "-p50", "p99", "-spread", "state"], rows)
    yield quiet("Figures of reads: medians of the runs, also of their percentiles. Spread: of operations per second, largest less "
                "smallest, as a part of the median. *: others kept processors of this machine busy meanwhile.")


def sweep_settings(doc):
    settings = items(doc, "sweep", "settings")
    return f'<p class="quiet">{command("Options of each run beside these:", settings)}; all others have their defaults.</p>\n' if settings else ""


# ---- all of it ----

PAIRS = (("A prefix by one GET, layer by layer", ("model", "by_layer")), ("Rate", ("rate",)), ("GET beside bare writes", ("roofline",)),
         ("PUT beside bare writes", ("roofline_put",)), ("Trace", ("trace",)), ("Warm-up until steady", ("warmup",)),
         ("Kept going", ("keep_going",)))
PAIRS_LAST = (("Fabric", "provider"), ("Host", "host"), ("Resources", "resources"), ("Options", "config"))


def page(doc):
    out = [HEAD, title(doc, "kv-bench sweep" if is_sweep(doc) else "kv-bench", ", on " + (text(at(doc, "host"), "name") or "")),
           verdict(doc), shared(doc)]
    if is_sweep(doc):
        out += sweep(doc)
    else:
        out += [table("Figures", FIGURES_HEAD, run_rows(doc)), *run_notes(doc)]
    out += [parts(doc), runs(doc), slo(doc), *charts(doc), model(doc)]
    out += [pairs(name, at(doc, *path)) for name, path in PAIRS]
    out += [conditions(doc), pairs("Sweep", at(doc, "sweep")), sweep_settings(doc)]
    out += [pairs(name, at(doc, member)) for name, member in PAIRS_LAST]
    return "".join(out) + "</body></html>\n"


# ---- targets beside each other ----

VERSUS_FIGURES = ("put", "get", "mixed")


def ratio(figure, name):
    r = at(figure, name)
    median, low, high = (number(r, n) for n in ("median", "ci_low", "ci_high"))
    if not math.isfinite(median):
        return ""
    if math.isfinite(low):
        return f"{median:.2f} [{low:.2f}, {high:.2f}]"
    return f"{median:.2f} ({number(r, 'low'):.2f}-{number(r, 'high'):.2f})"


def versus_notes(doc, targets):
    failed = [t for t in targets if text(t, "failed")]
    for t in failed:
        yield note(f"{text(t, 'label')} failed.", text(t, "failed"), " bad")
    if at(doc, "steady") is not True:
        yield note("Weak.", "In no round was the machine the same throughout: these are medians over all rounds.", " cut")
    if at(doc, "interrupted") is True:
        yield note("Interrupted.", "These are the rounds until then.", " cut")
    elif not failed:
        yield note("All well.", "No target failed, and no value was wrong or missing.")


def round_cells(run):
    cores, faults = number(at(run, "get"), "cores"), number(at(run, "put"), "page_faults")
    return [plain(number(at(run, "get"), "ops_per_s")),
            ", ".join((["%.2f" % cores] if cores > 0 else []) + (["%.1f" % faults] if faults >= 0 else []))]


def rounds(doc, targets):
    rows, head = [], ["GETs per second"]
    for t in targets:
        head += [text(t, "label") or "", "-cores, faults/PUT"]
    for i, r in enumerate(items(doc, "rounds"), 1):
        row = [f"round {i}" + ("" if at(r, "counts") is True else f", does not count: {text(r, 'why') or ''}")]
        rows.append(row + [cell for run in items(r, "runs") for cell in round_cells(run)] + [text(r, "cpus") or ""])
    return table("Rounds", head + ["-CPUs"], rows, "wide names")


def versus(doc):
    """The page of kv-bench versus."""
    targets, rows, bars = items(doc, "targets"), [], []
    for figure in VERSUS_FIGURES:
        found = [(text(t, "label") or "", at(t, figure)) for t in targets if number(at(t, figure), "ops_per_s") > 0]
        rows += [[f"{figure}, {label}", plain(number(f, "ops_per_s")), per_s(number(f, "bytes_per_s")), ns(number(f, "p50_ns")),
                  ns(number(f, "p99_ns")), ratio(f, "cpu_ratio"), ratio(f, "ratio")] for label, f in found]
        if found:
            bars.append(chart.bars(f"{figure}, operations per second", [(label, number(f, "ops_per_s")) for label, f in found], "count"))
    head = ["", "ops/s", "-bytes/s", "-p50", "p99", "first / this one, by CPU time", "-by the clock"]
    about = "".join(f'<p class="quiet"><span>{escape(text(t, "about"))}</span></p>\n' for t in targets if text(t, "about"))
    return "".join([HEAD, title(doc, "kv-bench versus"), quiet((text(doc, "load") or "") + "."), *versus_notes(doc, targets), shared(doc),
                    table("Medians", head, rows), f'<h2>Charts</h2>\n<div class="charts">\n{"".join(bars)}</div>\n',
                    rounds(doc, targets), f"<h2>Targets</h2>\n{about}", conditions(doc)]) + "</body></html>\n"
