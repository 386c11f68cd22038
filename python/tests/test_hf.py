# SPDX-License-Identifier: Apache-2.0
"""kvrail.hf without its packages; tests/engines/tokens.sh has its tests."""

import subprocess
import sys
import unittest


class HfTest(unittest.TestCase):
    def test_without_torch_it_says_what_to_install(self):
        code = "import sys; sys.modules['torch'] = None; import kvrail.hf"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("kvrail.hf needs torch and transformers 5: pip install torch", done.stderr)
