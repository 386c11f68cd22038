#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py [NAME...] -- runs the tests of the Python package, of this folder, and speaks TAP. A NAME with * chooses some.

Needs nothing but the package, and a kv-server (kvrail.Server says where it is looked for)."""

import fnmatch
import pathlib
import sys
import traceback
import unittest


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


class Tap(unittest.TestResult):
    """Prints a line for each test, when it is over."""

    count = 0

    def line(self, test, verdict, after=""):
        self.count += 1
        # Of the text that tests show when they fail nothing may look like a line of TAP.
        print(
            f"{verdict} {self.count} - {test.id() if hasattr(test, 'id') else test}{after}",
            flush=True,
        )

    def show(self, error):
        for line in "".join(traceback.format_exception(*error)).splitlines():
            print("# " + line)

    def addSuccess(self, test):
        self.line(test, "ok")

    def addSkip(self, test, reason):
        self.line(test, "ok", f" # SKIP {reason}")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.show(error)
        self.line(test, "not ok")

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error:
            super().addSubTest(test, subtest, error)
            self.show(error)
            print(f"# in {subtest}")
            if not getattr(test, "_kvrail_failed", False):
                test._kvrail_failed = True
                self.line(test, "not ok")


def main():
    here = str(pathlib.Path(__file__).resolve().parent)
    suite = unittest.TestLoader().discover(here, top_level_dir=here)
    wanted = sys.argv[1:]
    tests = [
        t for t in flat(suite) if not wanted or any(fnmatch.fnmatch(t.id(), w) for w in wanted)
    ]
    print(f"1..{len(tests)}", flush=True)
    result = Tap()
    unittest.TestSuite(tests).run(result)
    return 0 if result.wasSuccessful() and tests else 1


if __name__ == "__main__":
    sys.exit(main())
