# SPDX-License-Identifier: Apache-2.0
"""What the adapters of engines share: the text that changes with a model's weights, and the clear of an engine."""

import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

import kvrail
from kvrail import _engine, keys


class WeightsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def cache(self, look):
        """A stand-in for Hugging Face's cache."""
        module = types.SimpleNamespace(try_to_load_from_cache=look)
        self.enterContext(mock.patch.dict(sys.modules, {"huggingface_hub": module}))

    def test_a_folder_is_read(self):
        (self.folder / "model.safetensors").write_bytes(b"weights")
        first = _engine.weights_of(str(self.folder))
        self.assertEqual(first, keys.fingerprint_weights(self.folder))
        (self.folder / "model.safetensors").write_bytes(b"Weights")
        self.assertNotEqual(_engine.weights_of(str(self.folder)), first)

    def test_a_name_has_the_commit_of_the_cache(self):
        asked = []

        def look(name, file, revision):
            asked.append((name, file, revision))
            return "/cache/models--a--b/snapshots/c0ffee/config.json"

        self.cache(look)
        self.assertEqual(_engine.weights_of("a/b"), "c0ffee")
        self.assertEqual(_engine.weights_of("a/b", "v2"), "c0ffee")
        self.assertEqual(asked, [("a/b", "config.json", None), ("a/b", "config.json", "v2")])

    def test_what_cannot_be_read_is_its_name(self):
        def refuses(name, file, revision):
            raise ValueError("no repository has such a name")

        for look in (lambda name, file, revision: None, refuses):
            self.cache(look)
            self.assertEqual(_engine.weights_of("a/b"), "a/b")
        with mock.patch.dict(sys.modules, {"huggingface_hub": None}):
            self.assertEqual(_engine.weights_of("a/b"), "a/b")
        self.assertEqual(_engine.weights_of(str(self.folder)), str(self.folder))  # it has no weights
        with mock.patch.object(keys, "fingerprint_weights", side_effect=PermissionError):
            self.assertEqual(_engine.weights_of(str(self.folder)), str(self.folder))


class ClearTest(unittest.TestCase):
    def test_a_clear_that_a_server_does_not_confirm_raises(self):
        client = mock.Mock(
            clear=lambda timeout: kvrail.PeerDown.code,
            servers=lambda seconds: [{"name": "a:1", "state": "down", "why": "it is gone"}],
        )
        with self.assertRaisesRegex(kvrail.PeerDown, "a:1 is down: it is gone"):
            _engine.clear(client, True)
        with self.assertRaisesRegex(RuntimeError, "allow_clear is 0"):
            _engine.clear(mock.Mock(clear=self.fail), False)

    def test_the_name_is_a_text(self):
        self.assertEqual(_engine.name_of({"namespace": ""}, "vllm"), "vllm")
        self.assertEqual(_engine.name_of({"namespace": "mine"}, "vllm"), "mine")
        with self.assertRaisesRegex(ValueError, "namespace is a text, not 5"):
            _engine.name_of({"namespace": 5}, "vllm")


if __name__ == "__main__":
    unittest.main()
