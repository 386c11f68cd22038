# SPDX-License-Identifier: Apache-2.0
"""test_side_by_side.py -- the table of ratios: its cells, its conditions, and where it is written."""
import json
import os
import tempfile
import unittest

import side_by_side


def figure(median=None):
    f = {"ops_per_s": 1.0, "bytes_per_s": 1.0, "p50_ns": 1.0, "p99_ns": 1.0}
    if median:
        f["ratio"] = {"median": median, "low": median - 0.1, "high": median + 0.1, "rounds": 3}
    return f


def result(size, others=0.0, steady=True, ok=True):
    mine = {"target": "kvrail", "ok": True, "version": "0.1.0", "server_threads": 1, "get": figure(), "put": figure()}
    redis = {"target": "redis://127.0.0.1:6379", "ok": ok, "version": "7.0", "get": figure(2.0), "put": figure(1.5)}
    conditions = {"cores": 2, "provider": "tcp", "libfabric": "1.17", "others_cores": others, "shared_machine": others >= 0.25, "excluded": []}
    return {"schema": "kvbench-versus/1", "interrupted": False, "steady": steady, "value_bytes": size, "in_flight": 32,
            "conditions": conditions, "counted_rounds": 3, "rounds": [{}] * 7,
            "targets": [mine, redis]}


class Table(unittest.TestCase):
    def test_a_cell_is_a_ratio_with_its_range(self):
        lines = side_by_side.table([result(65536), result(1 << 20)])
        self.assertEqual(lines[0], "| KVRail / other | GET 64 KiB | PUT 64 KiB | GET 1 MiB | PUT 1 MiB |")
        self.assertEqual(lines[2], "| redis 7.0, clock | 2.00 (1.90-2.10) | 1.50 (1.40-1.60) "
                         "| 2.00 (1.90-2.10) | 1.50 (1.40-1.60) |")

    def test_processor_time_has_a_row_of_its_own(self):
        doc = result(65536)
        doc["targets"][1]["get"]["cpu_ratio"] = {"median": 1.2, "low": 1.1, "high": 1.3, "rounds": 3}
        lines = side_by_side.table([doc])
        self.assertEqual(lines[2], "| redis 7.0, CPU time | 1.20 (1.10-1.30) | - |")
        self.assertEqual(lines[3], "| redis 7.0, clock | 2.00 (1.90-2.10) | 1.50 (1.40-1.60) |")

    def test_an_interval_of_confidence_stands_for_the_range(self):
        doc = result(65536)
        doc["targets"][1]["get"]["ratio"].update(ci_low=1.95, ci_high=2.05)
        self.assertEqual(side_by_side.table([doc])[2], "| redis 7.0, clock | 2.00 [1.95-2.05] | 1.50 (1.40-1.60) |")

    def test_congestion_control_is_told_where_it_is_known_of_several(self):
        doc = result(65536)
        doc["targets"][0]["congestion_control"] = "reno"
        self.assertNotIn("Congestion", " ".join(side_by_side.table([doc])))
        doc["targets"][1]["congestion_control"] = "reno"
        self.assertIn("Congestion control: reno of all.", " ".join(side_by_side.table([doc])))
        doc["targets"][1]["congestion_control"] = "bbr"
        self.assertIn("Congestion control: kvrail 0.1.0 reno, redis 7.0 bbr.", " ".join(side_by_side.table([doc])))

    def test_on_a_shared_machine_only_processor_time_is_compared(self):
        doc = result(65536, 0.5)
        doc["targets"][1]["get"]["cpu_ratio"] = {"median": 1.2, "low": 1.1, "high": 1.3, "rounds": 3}
        self.assertEqual([line for line in side_by_side.table([doc]) if "redis" in line and "|" in line],
                         ["| redis 7.0, CPU time | 1.20 (1.10-1.30) | - |"])

    def test_a_target_without_processor_time_keeps_its_rates(self):
        doc = result(65536, 0.5)
        doc["targets"][1]["get"]["cpu_ratio"] = {"median": 1.2, "low": 1.1, "high": 1.3, "rounds": 3}
        doc["targets"].append(dict(result(65536)["targets"][1], target="program:other"))
        self.assertIn("| program 7.0, clock | 2.00 (1.90-2.10) | 1.50 (1.40-1.60) |", side_by_side.table([doc]))

    def test_two_servers_of_a_kind_are_told_apart_by_their_threads(self):
        doc = result(65536)
        doc["targets"][1]["server_threads"] = 4
        doc["targets"].append(dict(doc["targets"][1], target="redis://127.0.0.1:6380", server_threads=1))
        lines = side_by_side.table([doc])
        self.assertEqual([line.split(" |")[0] for line in lines[2:4]], ["| redis 7.0, 4 threads, clock", "| redis 7.0, 1 thread, clock"])
        self.assertIn("Threads of the servers: kvrail 0.1.0 1, redis 7.0 4, redis 7.0 1.", " ".join(lines))

    def test_a_unix_socket_is_named(self):
        doc = result(65536)
        doc["targets"].append(dict(doc["targets"][1], target="redis+unix:///run/r.sock"))
        self.assertEqual([line.rpartition(", ")[0] for line in side_by_side.table([doc])[2:4]],
                         ["| redis 7.0", "| redis 7.0, unix socket"])

    def test_what_failed_has_no_ratio(self):
        self.assertIn("| redis 7.0, clock | failed | failed |", side_by_side.table([result(65536, ok=False)]))

    def test_the_conditions_are_told(self):
        quiet = " ".join(side_by_side.table([result(65536)]))
        self.assertIn("Rounds that count: 3 of 7 at 64 KiB.", quiet)
        self.assertNotIn("shared", quiet)
        loud = " ".join(side_by_side.table([result(65536, 0.1), result(1 << 20, 1.3)]))
        self.assertIn("Other processes took 0.1 to 1.3 of the cores: a shared machine", loud)
        self.assertIn("ratios are of all rounds", " ".join(side_by_side.table([result(65536, steady=False)])))

    def test_a_file_in_which_no_round_counts_is_left_out(self):
        lines = side_by_side.table([result(65536), result(1 << 20, steady=False)])
        self.assertEqual(lines[0], "| KVRail / other | GET 64 KiB | PUT 64 KiB |")
        self.assertIn("at 1 MiB, which is left out.", " ".join(lines))

    def test_a_range_is_of_numbers_and_conditions_are_of_all_files(self):
        docs = [result(65536, 10.2), result(1 << 20, 9.5)]
        docs[1]["conditions"]["cores"], docs[1]["in_flight"] = 4, 8
        text = " ".join(side_by_side.table(docs))
        self.assertIn("took 9.5 to 10.2 of the cores", text)
        self.assertIn("2 cores, tcp with libfabric 1.17 or 4 cores, tcp with libfabric 1.17 over loopback, 32 or 8 in", text)

    def test_lines_are_no_wider_than_a_document(self):
        self.assertLessEqual(max(map(len, side_by_side.table([result(65536), result(1 << 20)]))), side_by_side.COLUMNS)

    def test_other_targets_or_other_results_are_refused(self):
        other = result(65536)
        other["targets"][1]["target"] = "memcached://127.0.0.1:1"
        with self.assertRaises(SystemExit):
            side_by_side.table([result(65536), other])
        with self.assertRaises(SystemExit):
            side_by_side.table([{"schema": "kvbench/1", "targets": []}])
        for foreign in ({}, []):
            with self.assertRaises(SystemExit):
                side_by_side.table([foreign, result(65536)])

    def test_it_replaces_what_is_between_its_marks(self):
        text = f"a\n{side_by_side.BEGIN}\nold\n{side_by_side.END}\nb\n"
        once = side_by_side.insert(text, ["new"])
        self.assertEqual(once, f"a\n{side_by_side.BEGIN}\nnew\n{side_by_side.END}\nb\n")
        self.assertEqual(side_by_side.insert(once, ["new"]), once)
        with self.assertRaises(SystemExit):
            side_by_side.insert("no marks", ["new"])

    def test_a_table_that_is_not_of_these_results_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page, one, other = (os.path.join(folder, name) for name in ("page", "one", "other"))
            for path, text in ((page, f"{side_by_side.BEGIN}\n{side_by_side.END}\n"), (one, json.dumps(result(65536))),
                               (other, json.dumps(result(1 << 20)))):
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
            with self.assertRaises(SystemExit):
                side_by_side.main(["--check", page, one])
            side_by_side.main(["--into", page, one])
            side_by_side.main(["--check", page, one])
            with self.assertRaises(SystemExit):
                side_by_side.main(["--check", page, one, other])


if __name__ == "__main__":
    unittest.main()
