# SPDX-License-Identifier: Apache-2.0
"""Chained keys and fingerprints: the same everywhere, and different as soon as anything that matters is."""

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from kvrail import keys

MARK = "0123456789abcdef"


class NamespaceTest(unittest.TestCase):
    def test_names_never_change(self):
        """What is stored in them outlives a release."""
        self.assertEqual(keys.namespace(model="m"), "6e9e60aad34183570e22676627580367")
        self.assertEqual(
            keys.namespace("prod", model="m", tp_rank=1, tp_size=2, block=16),
            "prod-80bd5fa03ab9d43f7268ebc0aac5982e",
        )

    def test_every_field_counts(self):
        fields = {
            "revision": "r",
            "weights": "w",
            "dtype": "bf16",
            "quantization": "awq",
            "lora": ["a"],
            "layout": "NHD",
            "tp_rank": 1,
            "tp_size": 2,
            "block": 16,
        }
        names = [keys.namespace(base, model=m) for base, m in (("", "m"), ("", "n"), ("b", "m"))]
        names += [keys.namespace(model="m", **{field: value}) for field, value in fields.items()]
        self.assertEqual(len(set(names)), len(names))

    def test_the_base_is_limited(self):
        self.assertEqual(len(keys.namespace("x" * 31, model="m")), 64)
        for base in ("x" * 32, "\u00e9" * 16):
            with self.assertRaisesRegex(ValueError, "at most 31 bytes, not 32"):
                keys.namespace(base, model="m")

    def test_new_weights_have_another_fingerprint(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            with self.assertRaisesRegex(ValueError, "has no weights"):
                keys.fingerprint_weights(folder)
            rng, file = random.Random(5), folder / "model-1.safetensors"
            content = bytearray(rng.randbytes(3_000_000))
            file.write_bytes(content)
            (folder / "config.json").write_text("{}")
            (folder / "README.md").write_text("old")
            first = keys.fingerprint_weights(folder)
            (folder / "README.md").write_text("new")
            self.assertEqual(keys.fingerprint_weights(folder), first)
            seen = {first, keys.fingerprint_weights(file)}
            for at in (0, len(content) - 1):  # samples lie at both ends
                content[at] ^= 1
                file.write_bytes(content)
                seen.add(keys.fingerprint_weights(folder))
            begin = rng.randrange(2_900_000)
            for at in range(begin, begin + 100_000):  # as long as two distances between samples
                content[at] ^= 1
            file.write_bytes(content)
            seen.add(keys.fingerprint_weights(folder))
            (folder / "config.json").write_text('{"rope_scaling": 2}')
            seen.add(keys.fingerprint_weights(folder))
            (folder / "model-2.safetensors").write_bytes(b"")
            seen.add(keys.fingerprint_weights(folder))
            self.assertEqual(len(seen), 7)


class ChainTest(unittest.TestCase):
    def test_keys_never_change(self):
        """What is stored under them outlives a release."""
        self.assertEqual(
            keys.chained(MARK, range(9), 4),
            [
                "0123456789abcdef/043541b6ae7e0f65eba01d86438760b6",
                "0123456789abcdef/2e0aa3eef5180b899c5ead505d2b8f54",
            ],
        )
        self.assertEqual(keys.fingerprint(model="m", block=16), "a1f9108b5e8f8fa0ce466e99ec6a3525")

    def test_they_do_not_depend_on_the_process(self):
        code = "from kvrail import keys; print(keys.chained('m', range(64), 16), keys.fingerprint(a=1, b={'x': [2]}))"
        said = {
            subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                check=True,
            ).stdout
            for seed in ("0", "1", "77")
        }
        self.assertEqual(len(said), 1)

    def test_a_key_depends_on_all_tokens_before_its_end_and_on_no_other(self):
        rng = random.Random(3)
        tokens = [rng.randrange(1 << 17) for _ in range(100)]
        base = keys.chained(MARK, tokens, 16)
        self.assertEqual(len(base), 6)
        for at in range(100):
            other = list(tokens)
            other[at] += 1
            got = keys.chained(MARK, other, 16)
            self.assertEqual(got[: at // 16], base[: at // 16])
            self.assertTrue(set(got[at // 16 :]).isdisjoint(base))

    def test_mark_block_and_salt_separate_keys(self):
        base = set(keys.chained(MARK, range(64), 16))
        for other in (
            keys.chained(MARK + "0", range(64), 16),
            keys.chained(MARK, range(64), 8),
            keys.chained(MARK, range(64), 16, salt="tenant"),
        ):
            self.assertTrue(base.isdisjoint(other))

    def test_a_chain_grows_in_any_steps_and_forks(self):
        rng = random.Random(4)
        tokens = [rng.randrange(1 << 60) for _ in range(1000)]
        whole, chain, got, at = keys.chained(MARK, tokens, 16), keys.Chain(MARK, 16), [], 0
        while at < len(tokens):
            step = rng.randrange(50)
            got += chain.extend(tokens[at : at + step])
            at += step
        self.assertEqual(got, whole)
        fork = chain.copy()
        self.assertEqual(fork.extend(range(16)), chain.extend(range(16)))
        self.assertNotEqual(fork.extend(range(16)), chain.extend(range(1, 17)))

    def test_tokens_of_any_kind(self):
        class Tensor:
            def tolist(self):
                return [1, 2, 3, 4]

        want = keys.chained(MARK, [1, 2, 3, 4], 2)
        for tokens in ((1, 2, 3, 4), iter([1, 2, 3, 4]), Tensor()):
            self.assertEqual(keys.chained(MARK, tokens, 2), want)
        for bad in ([1.5], ["a"], [1 << 63], [[1, 2]]):
            with self.assertRaisesRegex(TypeError, "a flat sequence of ints of 64 bits"):
                keys.chained(MARK, bad, 2)
        for block in (0, -1, 1.5, None):
            with self.assertRaisesRegex(ValueError, "1 token or more"):
                keys.Chain(MARK, block)
        for mark in ("", "x" * 65):
            with self.assertRaisesRegex(ValueError, "1 to 64 characters"):
                keys.Chain(mark, 16)


class FingerprintTest(unittest.TestCase):
    def test_every_field_counts_and_their_order_does_not(self):
        base = {"model": "m", "dtype": "bf16", "tp": [1, 4], "rope": {"theta": 1e6}}
        mark = keys.fingerprint(**base)
        self.assertEqual(mark, keys.fingerprint(**dict(reversed(base.items()))))
        for change in (
            {"model": "n"},
            {"tp": [2, 4]},
            {"rope": {}},
            {"extra": None},
            {"tp": "[1,4]"},
        ):
            self.assertNotEqual(mark, keys.fingerprint(**{**base, **change}))
        self.assertRegex(mark, "^[0-9a-f]{32}$")

    def test_what_has_no_lasting_text_is_refused(self):
        for bad in (object(), b"bytes", float("nan"), {1, 2}):
            with self.assertRaisesRegex(TypeError, "text, numbers, lists and dicts"):
                keys.fingerprint(field=bad)
        with self.assertRaisesRegex(ValueError, "needs fields"):
            keys.fingerprint()

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            a, b = pathlib.Path(folder, "a"), pathlib.Path(folder, "b")
            a.write_bytes(b"weights")
            b.write_bytes(b"more")
            mark = keys.fingerprint_files(a, b)
            self.assertEqual(mark, keys.fingerprint_files(str(a), str(b)))
            self.assertNotEqual(mark, keys.fingerprint_files(b, a))
            b.write_bytes(b"morf")
            self.assertNotEqual(mark, keys.fingerprint_files(a, b))
            with self.assertRaises(FileNotFoundError):
                keys.fingerprint_files(a, pathlib.Path(folder, "c"))


if __name__ == "__main__":
    unittest.main()
