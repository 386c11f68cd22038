# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/guide/python.md run as they stand there, and print the lines that their comments promise."""

import contextlib
import io
import itertools
import re
import unittest

import kvrail
from test_errors import TREE


def unlike(example: str, path: str, names: dict) -> list[str]:
    """Run an example. Returns the arguments of the print() calls whose line is not the promised one."""
    promised = re.findall(r"\bprint\((.*)\) +# (.*)", example)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(example, path, "exec"), names)
    lines = itertools.zip_longest(promised, out.getvalue().splitlines(), fillvalue=("nothing more", ""))
    return [wanted[0] for wanted, line in lines if wanted[1] != line]


class DocsTest(unittest.TestCase):
    def test_examples_of_the_guide(self):
        path = TREE / "docs" / "guide" / "python.md"
        if not path.is_file():
            self.skipTest("the source tree's documents are not here")
        examples = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S)
        self.assertGreater(len(examples), 3)
        own = kvrail.Server(memory_mb=64)  # their keys are those that other tests have, too
        self.addCleanup(own.close)
        names = {"servers": own.address}
        for example in examples:
            with self.subTest(example=example[:60]):
                # A busy machine may need longer than the half second of a reader's engine.
                example = re.sub(r"\btimeout=[\d.]+", "timeout=60", example)
                wrong = unlike(example, str(path), names)
                # On a busy machine a client's first value may come over the fabric, and not in place.
                if wrong == ["view.in_place"]:
                    wrong = unlike(example, str(path), names)
                self.assertEqual(wrong, [])

    def test_a_wrong_line_is_found(self):
        for example, wrong in (
            ("print(1)  # 1\nprint(2 + 3)  # 6\n", ["2 + 3"]),
            ("print(1)  # 1\nprint(2)\n", ["nothing more"]),
            ("if False:\n    print(1)  # 1\n", ["1"]),
            ("print('a', (1))    # a 1\n", []),
        ):
            with self.subTest(example=example):
                self.assertEqual(unlike(example, "example", {}), wrong)


if __name__ == "__main__":
    unittest.main()
