#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py BROWSER FOLDER PAGE... -- looks at pages of kv-bench in a headless Chromium, on a telephone and a screen.

Prints a line for each thing that is wrong; exit status 1 then. A page lies in a frame of the width, since a window of a
headless browser has a least width, and a script beside it reads what the page has become:
  * no part of it is wider than the frame, no table has to be moved sideways to be read, no text leaves its chart;
  * no text is smaller than TEXT_PX, charts' text included, as it is on the screen;
  * it has the charts that it was written with, and nothing that it tried to load or run was refused.
FOLDER: for the browser's profile and the frames.
"""
import json
import os
import re
import subprocess
import sys

WIDTHS = (390, 1280)
TEXT_PX = 10
FRAME = """<!doctype html><body style="margin:0"><iframe id="frame" style="border:0;width:%dpx;height:4000px" src="%s"></iframe>
<pre id="seen"></pre><script>
document.getElementById("frame").onload = function () {
  var page = this.contentDocument, out = {wide: [], cut: [], small: [], charts: page.querySelectorAll("svg").length, dark: false};
  out.wide_by = page.documentElement.scrollWidth - page.documentElement.clientWidth;
  out.background = page.defaultView.getComputedStyle(page.body).backgroundColor;
  page.querySelectorAll(".wide").forEach(function (e) {
    if (e.scrollWidth > e.clientWidth) out.wide.push(e.textContent.slice(0, 40) + ": " + e.scrollWidth + " of " + e.clientWidth);
  });
  page.querySelectorAll("svg text").forEach(function (e) {
    var box = e.getBBox(), all = e.ownerSVGElement.viewBox.baseVal;
    if (box.x < 0 || box.x + box.width > all.width) out.cut.push(e.textContent.slice(0, 40));
  });
  var walk = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT), node;
  while ((node = walk.nextNode())) {
    var e = node.parentElement;
    if (!node.textContent.trim() || !e.getClientRects().length) continue;
    var px = parseFloat(page.defaultView.getComputedStyle(e).fontSize), ctm = e.getScreenCTM ? e.getScreenCTM().a : 1;
    if (px * ctm < %g) out.small.push(node.textContent.slice(0, 30) + ": " + (px * ctm).toFixed(1) + " px");
  }
  document.getElementById("seen").textContent = JSON.stringify(out);
};
</script></body>"""


def look(browser, folder, page, width, dark):
    frame = os.path.join(folder, "frame.html")
    with open(frame, "w", encoding="utf-8") as f:
        f.write(FRAME % (width, "file://" + os.path.abspath(page), TEXT_PX))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files",
               "--user-data-dir=" + os.path.join(folder, "profile"), "--enable-logging=stderr", "--v=0",
               f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--window-size=1400,1000",
               "--virtual-time-budget=5000", "--dump-dom", "file://" + frame]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=100, check=False)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    if not found or not found[1]:
        return None, [f"the browser showed nothing (exit status {done.returncode}): {done.stderr[-400:]}"]
    seen = json.loads(found[1].replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    wrong = [f"the page is wider than {width} by {seen['wide_by']}"] if seen["wide_by"] > 0 else []
    wrong += [f"a table is cut off: {w}" for w in seen["wide"]]
    wrong += [f"a chart's text is cut off: {c}" for c in seen["cut"][:5]]
    wrong += [f"text of less than {TEXT_PX} px: {s}" for s in seen["small"][:5]]
    wrong += [line for line in done.stderr.split("\n") if "CONSOLE" in line]
    with open(page, encoding="utf-8") as f:
        written = f.read().count("<svg")
    if seen["charts"] != written or written == 0:
        wrong.append(f"{seen['charts']} charts of {written}")
    return seen, wrong


def main():
    browser, folder, bad = sys.argv[1], sys.argv[2], False
    for page in sys.argv[3:]:
        colours = set()
        for width in WIDTHS:
            for dark in (False, True):
                seen, wrong = look(browser, folder, page, width, dark)
                for line in wrong:
                    print(f"{os.path.basename(page)}, {width} wide, {'dark' if dark else 'light'}: {line}")
                bad |= bool(wrong)
                colours.add((dark, seen and seen["background"]))
        if len({colour for _, colour in colours}) != 2:
            print(f"{os.path.basename(page)}: dark and light look alike: {sorted(colours, key=str)}")
            bad = True
    return 1 if bad or len(sys.argv) < 4 else 0


if __name__ == "__main__":
    sys.exit(main())
