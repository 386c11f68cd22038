# SPDX-License-Identifier: Apache-2.0
"""plot.py -- kv-bench plot: a result's charts and files again, without a run."""
import subprocess
import sys

import document
import files
import page
from document import RUN, SWEEP, Refused
from figures import FIGURES

PNG = ["rsvg-convert", "--format", "png", "--width", "1320"]


def png(svg):
    try:
        done = subprocess.run(PNG, input=svg.encode(), capture_output=True, check=False)
    except OSError:
        raise Refused("a PNG is made by rsvg-convert, which is not installed: install it (Debian: librsvg2-bin, Red Hat: "
                      "librsvg2-tools), or write an .svg") from None
    if done.returncode or not done.stdout:
        raise Refused("rsvg-convert made no PNG: write an .svg instead")
    return done.stdout


def made(doc, kind, figure):
    """The bytes of a file of this kind."""
    if kind in ("svg", "png"):
        svg = FIGURES[figure](doc, True)
        return png(svg) if kind == "png" else svg.encode()
    return {"html": page.page, "hgrm": document.hgrm, "csv": document.csv}[kind](doc).encode()


def main(args, version):
    """args: the result, the file to write, its kind, the chart or "". The exit status: 0, 1 not written, 2 not read."""
    path, output, kind, figure = args
    try:
        doc = document.load(path, (RUN, SWEEP), version)
    except Refused as why:
        print(f"kv-bench plot: {why}", file=sys.stderr)
        return 2
    try:
        if document.is_sweep(doc) and kind in ("hgrm", "csv"):
            raise Refused("a sweep has no percentiles and no time series of its own: draw it as .svg, .png or .html")
        figure = figure or ("scaling" if document.is_sweep(doc) else "percentiles")
        files.write(output, "the file", lambda: made(doc, kind, figure))
    except Refused as why:
        print(f"kv-bench plot: {why}", file=sys.stderr)
        return 1
    return 0
