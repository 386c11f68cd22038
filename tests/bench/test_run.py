# SPDX-License-Identifier: Apache-2.0
"""test_run.py -- what the driver makes of pairs: medians, dropped pairs, verdicts, tables, the marked blocks."""
import os
import tempfile
import unittest
from unittest import mock

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
        self.assertEqual(bench.verdict(summary([pair(8, 10)], goal=0.9, target=1.4)), "0.9 (target 1.4): **missed**")
        self.assertEqual(bench.verdict(summary([pair(15, 10)], goal=0.9, target=1.4)), "target 1.4: reached")
        self.assertEqual(bench.verdict(summary([pair(8, 10)], target=1.4)), "target 1.4: missed")
        self.assertEqual(bench.verdict(summary([pair(8, 10)])), "-")
        self.assertEqual(bench.verdict(summary([pair(8, 10, foreign=0.5)], goal=0.5)), "0.5: reached (busy)")
        self.assertEqual(bench.verdict(summary([pair(8, 10)], below=8)), "below 8: **missed**")
        self.assertEqual(bench.verdict(summary([pair(11, 10)], most=1.1)), "at most 1.1: reached")
        self.assertEqual(bench.verdict(summary([pair(12, 10)], most=1.1)), "at most 1.1: **missed**")

    def test_states(self):
        self.assertEqual([bench.state_of(x) for x in (48, 100, 500)], ["near", "mid", "far"])

    def test_what_changes_is_a_step_and_not_the_scatter_of_a_measurement(self):
        self.assertEqual(bench.state_over([58, 84, 65]), "near")
        self.assertEqual(bench.state_over([60, 120, 60]), "changed")
        self.assertEqual(bench.state_over([60, 0, 60]), "changed")
        self.assertEqual(bench.state_over([0, 0, 0]), "changed")
        self.assertEqual(bench.state_over([None, None]), "one CPU")


def widest(label, c):
    """The case as it is summed up with the longest figures that are likely."""
    return dict(c, label=label, a=0.9999e6, b=0.9999e6, a_bytes_per_s=9.99e9, b_bytes_per_s=9.99e9, ratio=9.99, low=0.99, high=9.99, counted=7,
                dropped=0, unsteady=False, states={"near": 7}, foreign_cores=0.5)


class Phases(unittest.TestCase):
    def test_a_phase_alone_and_two_at_once(self):
        def phase(ops, p50):
            return {"ops_per_s": ops, "bytes_per_s": 10 * ops, "latency_ns": {"p50": p50, "p99": 2 * p50}}
        report = {"phases": {"write": phase(5, 1), "read": phase(7, 2), "mixed": {"write": phase(2, 3), "read": phase(4, 6)}}}
        self.assertEqual(bench.phase_of(report, "write"), {"value": 5, "bytes_per_s": 50, "p50_ns": 1, "p99_ns": 2})
        self.assertEqual(bench.phase_of(report, "write", "read"), {"value": 6, "bytes_per_s": 60, "p50_ns": 6, "p99_ns": 12})

    def test_a_percentile_that_few_samples_do_not_reach_is_their_largest(self):
        self.assertEqual(bench.p99_of({"latency_ns": {"p50": 1, "p99": 7, "max": 9}}), 7)
        self.assertEqual(bench.p99_of({"latency_ns": {"p50": 1, "max": 9}}), 9)

    def test_puts_are_new_keys_and_bounded(self):
        for size in (4096, 65536, 1 << 20):
            self.assertTrue(32 <= bench.put_keys(size) <= (2 << 30) // size)


class Rivals(unittest.TestCase):
    def test_one_that_is_not_here_leaves_the_other(self):
        def only(program):
            if program != "memcached":
                raise bench.Skipped(program)
        with mock.patch.object(bench, "need", side_effect=only):
            self.assertEqual([name for name, _ in bench.rivals()], ["memcached"])
        with mock.patch.object(bench, "need", side_effect=bench.Skipped("none")), self.assertRaises(bench.Skipped):
            bench.rivals()


class Table(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.doc = os.path.join(scratch.name, "doc.md")
        patched = mock.patch.object(bench, "DOC", self.doc)
        patched.start()
        self.addCleanup(patched.stop)

    def test_a_row_per_case_and_what_failed_is_said_below(self):
        done = {"date": "2026-01-02", "commit": "abc", "seconds": 1,
                "cases": [summary([pair(20000, 10000)], goal=1.5), {"label": "y", "failed": "why"}]}
        lines = bench.table("redis", done)
        self.assertIn("| x | 20.0k | 10.0k | **2.00** | 2.00-2.00 | 1.5: reached |", lines)
        self.assertIn("2026-01-02, commit abc; read phases of 1 s; pairs a row: 1; CPUs near 1; other processes took 0.10 to 0.10 cores.", lines)
        self.assertEqual(lines[-1], "y failed: why")

    def test_where_all_failed_there_is_no_table(self):
        lines = bench.table("redis", {"date": "2026-01-02", "commit": "abc", "seconds": 1, "cases": [{"label": "y", "failed": "long " * 60}]})
        self.assertFalse([line for line in lines if line.startswith("|") or len(line) > bench.COLUMNS])

    def test_dropped_pairs_of_all_rows_are_counted_below(self):
        cases = [summary([pair(1, 1), pair(9, 1, "changed")]), summary([pair(1, 1, "far", 0.4)]), summary([pair(3, 1, "changed")])]
        self.assertIn("CPUs near 1, far 1, changed 1, 1 dropped; other processes took 0.10 to 0.40 cores.", bench.circumstances(cases))

    def test_what_is_skipped_says_why(self):
        self.assertEqual(bench.table("redis", {"skipped": "no redis", "cases": []})[-1], "Not measured: no redis.")

    def test_a_row_fits_the_columns(self):
        stubs = {"need": mock.DEFAULT, "fi_rma_bw": mock.DEFAULT, "KeptServer": mock.DEFAULT}
        with mock.patch.multiple(bench, TRACE=__file__, **stubs):
            for name, (*_, cases) in bench.COMPARISONS.items():
                done = {"date": "2026-01-02 03:04 UTC", "commit": "0123456789-dirty", "seconds": 0.5, "cases": [widest(c["label"], c) for c in cases()]}
                self.assertTrue(done["cases"], name)
                if name in ("idle", "submit", "one-host-latency"):
                    for c in done["cases"]:
                        del c["ratio"]
                for line in bench.table(name, done):
                    self.assertLessEqual(len(line), bench.COLUMNS, line)

    def test_only_the_block_is_replaced(self):
        with open(self.doc, "w", encoding="utf-8") as f:
            f.write("# By hand\n<!-- bench:shm begin -->\nold\n<!-- bench:shm end -->\nalso by hand\n")
        bench.doc_write({"shm": ["new", "table"], "redis": ["nowhere"]})
        self.assertEqual(bench.read_file(self.doc),
                         "# By hand\n<!-- bench:shm begin -->\nnew\ntable\n<!-- bench:shm end -->\nalso by hand")

    def test_a_new_document_has_a_block_for_every_comparison(self):
        bench.doc_write({"shm": ["| a | b |"]})
        text = bench.read_file(self.doc)
        for name in [*bench.COMPARISONS, "machine"]:
            begin, end = bench.markers(name)
            self.assertEqual((text.count(begin), text.count(end)), (1, 1), name)
            self.assertLess(text.find(begin), text.find(end), name)
        self.assertIn("<!-- bench:shm begin -->\n| a | b |\n<!-- bench:shm end -->", text)
        self.assertEqual(text.count("Not measured."), len(bench.COMPARISONS))

    def test_the_document_that_is_here_has_a_block_for_every_comparison(self):
        if not os.path.exists(os.path.join(bench.ROOT, bench.DOC_NAME)):
            self.skipTest("make bench has not been run here")
        with open(os.path.join(bench.ROOT, bench.DOC_NAME), encoding="utf-8") as f:
            text = f.read()
        for name in [*bench.COMPARISONS, "machine"]:
            begin, end = bench.markers(name)
            self.assertLess(-1, text.find(begin), name)
            self.assertLess(text.find(begin), text.find(end), name)


if __name__ == "__main__":
    unittest.main()
