# SPDX-License-Identifier: Apache-2.0
"""test_run.py -- what the driver makes of pairs: medians, dropped pairs, verdicts, tables, the marked blocks."""
import os
import tempfile
import unittest

import run as bench


def pair(a, b, state="near", foreign=0.1):
    return {"a": {"value": a, "p50_ns": 10 * a}, "b": {"value": b}, "ratio": a / b, "state": state, "c2c_ns": [50, 50, 50], "foreign_cores": foreign}


def summary(pairs, **more):
    kept = [p for p in pairs if p["state"] != "changed"]
    return bench.summarize(bench.case("x", None, None, **more), pairs, kept)


class Summary(unittest.TestCase):
    def test_median_of_ratios_not_ratio_of_medians(self):
        s = summary([pair(1, 1), pair(30, 10), pair(100, 50)])
        self.assertEqual((s["ratio"], s["low"], s["high"]), (2, 1, 3))
        self.assertEqual((s["a"], s["b"]), (30, 10))
        self.assertEqual(s["a_p50_ns"], 300)

    def test_a_pair_during_which_the_cpus_moved_does_not_count(self):
        s = summary([pair(1, 1), pair(9, 1, "changed"), pair(1, 1, "far")])
        self.assertEqual((s["ratio"], s["counted"], s["dropped"], s["unsteady"]), (1, 2, 1, False))
        self.assertEqual(s["states"], {"near": 1, "far": 1})

    def test_without_a_steady_pair_all_count_and_it_is_said(self):
        s = summary([pair(3, 1, "changed")])
        self.assertEqual((s["ratio"], s["unsteady"], s["states"]), (3, True, {"changed": 1}))

    def test_verdicts(self):
        self.assertEqual(bench.verdict(summary([pair(9, 10)], goal=0.9)), "0.9: reached")
        self.assertEqual(bench.verdict(summary([pair(8, 10)], goal=0.9, target=1.4)), "0.9 (target 1.4): **not reached**")
        self.assertEqual(bench.verdict(summary([pair(15, 10)], goal=0.9, target=1.4)), "target 1.4: reached")
        self.assertEqual(bench.verdict(summary([pair(8, 10)], target=1.4)), "target 1.4: not reached")
        self.assertEqual(bench.verdict(summary([pair(8, 10)])), "-")
        self.assertEqual(bench.verdict(summary([pair(8, 10, foreign=0.5)], goal=0.5)), "0.5: reached (busy machine)")
        self.assertEqual(bench.verdict(summary([pair(8, 10)], below=8)), "below 8: **not reached**")

    def test_states(self):
        self.assertEqual([bench.state_of(x) for x in (None, 0, 48, 100, 500)], ["one CPU", "busy", "near", "mid", "far"])


class Table(unittest.TestCase):
    def test_a_row_per_case_and_a_failure_is_a_row(self):
        done = {"date": "today", "commit": "abc", "seconds": 1, "cases": [summary([pair(20000, 10000)], goal=1.5), {"label": "y", "failed": "why"}]}
        lines = bench.table("redis", done)
        self.assertIn("| x | 20.0k | 10.0k | **2.00** | 2.00 to 2.00 | 1.5: reached | 1 | near 1 | 0.10 |", lines)
        self.assertIn("| y | failed: why | | | | | | | |", lines)

    def test_what_is_skipped_says_why(self):
        self.assertEqual(bench.table("redis", {"skipped": "no redis", "cases": []})[-1], "Not measured: no redis.")

    def test_only_the_block_is_replaced(self):
        with tempfile.TemporaryDirectory() as d:
            bench.DOC = os.path.join(d, "doc.md")
            with open(bench.DOC, "w", encoding="utf-8") as f:
                f.write("# By hand\n<!-- bench:shm begin -->\nold\n<!-- bench:shm end -->\nalso by hand\n")
            bench.doc_write({"shm": ["new", "table"], "redis": ["nowhere"]})
            self.assertEqual(bench.read_file(bench.DOC),
                             "# By hand\n<!-- bench:shm begin -->\nnew\ntable\n<!-- bench:shm end -->\nalso by hand")

    def test_the_document_has_a_block_for_every_comparison(self):
        with open(os.path.join(bench.ROOT, "docs/internals/performance.md"), encoding="utf-8") as f:
            text = f.read()
        for name in [*bench.COMPARISONS, "machine"]:
            self.assertLess(-1, text.find(f"<!-- bench:{name} begin -->"), name)
            self.assertLess(text.find(f"<!-- bench:{name} begin -->"), text.find(f"<!-- bench:{name} end -->"), name)


if __name__ == "__main__":
    unittest.main()
