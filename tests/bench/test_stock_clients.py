# SPDX-License-Identifier: Apache-2.0
"""test_stock_clients.py -- the table of stock clients: what each program is asked, and what is read of its answer."""
import argparse
import json
import unittest
from unittest import mock

import stock_clients

CSV = '''"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"SET","17000.50","1.0","0.2","1.500","2.0","3.250","9.0"
"GET","42000.00","0.7","0.2","0.700","1.0","1.250","9.0"
'''


class Run:
    """Stands in for all three programs."""

    def __init__(self):
        self.commands = []

    def __call__(self, command):
        self.commands.append(command)
        if "--json-out-file" in command:
            put = command[command.index("--ratio") + 1] == "1:0"
            stats = {"Ops/sec": 100.5 if put else 200.5, "Percentile Latencies": {"p50.00": 0.5, "p99.00": 2.5}}
            self.write(command[-1], {"ALL STATS": {"Sets" if put else "Gets": stats}})
        elif "versus" in command:
            figure = {"ops_per_s": 50000.0, "p50_ns": 500000.0, "p99_ns": 900000.0}
            self.write(command[-1], {"targets": [{"put": figure, "get": figure}]})
        return CSV

    @staticmethod
    def write(path, value):
        with open(path, "w", encoding="utf-8") as f:
            json.dump(value, f)


class Table(unittest.TestCase):
    def table(self, target, installed=("redis-benchmark", "memtier_benchmark")):
        o = argparse.Namespace(value_size=65536, num_keys=100, workers=32, ops=6400, seconds=1, kv_bench="kv-bench")
        run = Run()
        with mock.patch.object(stock_clients, "run", run), \
                mock.patch.object(stock_clients.shutil, "which", lambda name: name if name in installed else None):
            return stock_clients.table(target, o), run.commands

    def test_each_client_has_a_row_for_each_operation(self):
        lines, commands = self.table("redis://127.0.0.1:6379")
        self.assertEqual(lines[2:], ["| kv-bench | GET | 50,000 | 0.500 ms | 0.900 ms |", "| kv-bench | PUT | 50,000 | 0.500 ms | 0.900 ms |",
                                     "| redis-benchmark | GET | 42,000 | 0.700 ms | 1.250 ms |", "| redis-benchmark | PUT | 17,000 | 1.500 ms | 3.250 ms |",
                                     "| memtier_benchmark | GET | 200 | 0.500 ms | 2.500 ms |", "| memtier_benchmark | PUT | 100 | 0.500 ms | 2.500 ms |"])
        for command in commands:
            self.assertIn("65536", command)
            self.assertIn("32", command)

    def test_a_socket_is_named_to_each(self):
        commands = self.table("redis+unix:///run/r.sock")[1]
        self.assertTrue(all("/run/r.sock" in c or "redis+unix:///run/r.sock" in c for c in commands))

    def test_what_cannot_be_measured_says_why(self):
        lines = self.table("memcached://127.0.0.1:11211", installed=("redis-benchmark",))[0]
        self.assertIn("| redis-benchmark | does not speak this protocol | | | |", lines)
        self.assertIn("| memtier_benchmark | not installed | | | |", lines)

    def test_other_targets_are_refused(self):
        for target in ("kvrail", "http://x:1", "redis://"):
            with self.assertRaises(SystemExit):
                stock_clients.address_of(target)


if __name__ == "__main__":
    unittest.main()
