# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/guide/python.md run as they stand there."""

import contextlib
import io
import re
import unittest

import kvrail
from test_errors import TREE


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
                said = re.findall(r"print\(.*?# (.*)", example)
                # The first values of a client on a busy machine may come over the fabric, and not in place.
                for _ in range(5):
                    out = io.StringIO()
                    with contextlib.redirect_stdout(out):
                        exec(compile(example, str(path), "exec"), names)
                    if all(line in out.getvalue() for line in said):
                        break
                for line in said:
                    self.assertIn(line, out.getvalue())


if __name__ == "__main__":
    unittest.main()
