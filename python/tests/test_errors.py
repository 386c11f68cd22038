# SPDX-License-Identifier: Apache-2.0
"""One class for each code of codes.h, and what exceptions carry."""

import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import kvrail
from kvrail import _errors, _native

TREE = pathlib.Path(os.environ.get("KVRAIL_TREE", pathlib.Path(__file__).resolve().parents[2]))


class ErrorsTest(unittest.TestCase):
    def header(self):
        path = TREE / "base" / "codes.h"
        if not path.is_file():
            self.skipTest("codes.h of the source tree is not here")
        return {int(v): n for n, v in re.findall(r"^\t(KV_E\w+) = (\d+)", path.read_text(), re.M)}

    def test_every_code_of_the_header_has_a_class(self):
        codes = self.header()
        self.assertGreater(len(codes), 20)
        self.assertEqual(
            {-c: n for c, n in codes.items()}, {c: k.name for c, k in _errors.BY_CODE.items()}
        )

    def test_a_library_that_is_not_found_names_the_ways_out(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "kvrail")
            ignored = shutil.ignore_patterns("_native*", "__pycache__")
            shutil.copytree(pathlib.Path(kvrail.__file__).parent, package, ignore=ignored)
            (package / "_native.py").write_text("raise ImportError('libkvrail.so.0: no such file')")
            run = subprocess.run(
                [sys.executable, "-c", "import kvrail"],
                env={**os.environ, "PYTHONPATH": folder},
                capture_output=True,
                text=True,
            )
        self.assertEqual(run.returncode, 1)
        for word in ("libkvrail.so.0: no such file", "ldconfig", "KVRAIL_LIBRARY=tree"):
            self.assertIn(word, run.stderr)

    def test_every_class_is_public(self):
        for cls in _errors.BY_CODE.values():
            self.assertIs(getattr(kvrail, cls.__name__), cls)
            self.assertIn(cls.__name__, kvrail.__all__)

    def test_names_are_those_of_the_library(self):
        for code, cls in _errors.BY_CODE.items():
            self.assertEqual(_native.errname(code), cls.name)
            self.assertTrue(cls.__doc__)

    def test_a_code_without_a_class_is_an_error_with_its_name(self):
        error = _errors.make(-5)
        self.assertIs(type(error), kvrail.Error)
        self.assertEqual((error.code, error.name), (-5, _native.errname(-5)))

    def test_a_file_that_cannot_be_read_is_a_wrong_option(self):
        nowhere = dict.fromkeys(("cert_file", "key_file", "ca_file"), "/nope/pem")
        for options in ({"psk_file": "/nope"}, {"psk_file": "/dev/null/psk"}, nowhere):
            with self.assertRaisesRegex(kvrail.Invalid, "cannot open the .* file /") as caught:
                kvrail.Client("127.0.0.1:1", **options)
            self.assertEqual(caught.exception.name, "KV_EINVAL")
        self.assertIs(type(_errors.make(-13)), kvrail.Denied)
        self.assertIs(type(pickle.loads(pickle.dumps(_errors.make(-12)))), kvrail.NoMemory)

    def test_errors_can_be_pickled(self):
        error = pickle.loads(
            pickle.dumps(_errors.make(-1004, "no such key, id or server: key 'a'"))
        )
        self.assertEqual(
            (type(error), str(error), error.code),
            (kvrail.NotFound, "no such key, id or server: key 'a'", -1004),
        )
        error.results = [5, -1004]
        self.assertEqual(pickle.loads(pickle.dumps(error)).results, [5, -1004])

    def test_versions_agree(self):
        path = TREE / "Makefile"
        if not path.is_file():
            self.skipTest("the source tree is not here")
        version = re.search(r"^VERSION := (\S+)", path.read_text(), re.M)[1]
        project = re.search(
            r'^version = "(.*)"', (TREE / "python" / "pyproject.toml").read_text(), re.M
        )[1]
        self.assertEqual((kvrail.__version__, project), (version, version))


if __name__ == "__main__":
    unittest.main()
