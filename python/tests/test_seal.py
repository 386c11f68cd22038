# SPDX-License-Identifier: Apache-2.0
"""Sealed values: what a client with a key file stores, and what others see of it."""

import asyncio
import os
import secrets
import tempfile
import unittest

import kvrail
from common import fresh, server

VALUE = bytes(range(256)) * 1000


class SealTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def keys(self, *names):
        path = os.path.join(self.folder.name, "-".join(names))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.writelines(f"{name}:{secrets.token_hex(32)}\n" for name in names)
        return path

    def client(self, **options):
        client = kvrail.Client(server().address, num_clients=1, **options)
        self.addCleanup(client.close)
        return client

    def test_values_come_back_and_others_get_none(self):
        path = self.keys("one", "names")
        for local in ("off", "auto"):
            client, plain = self.client(seal_key_file=path, local=local), self.client(local=local)
            key = fresh()
            client.put(key, VALUE)
            self.assertEqual(client.get(key), VALUE)
            into = bytearray(len(VALUE))
            self.assertEqual(client.get(key, into=into), len(VALUE))
            self.assertEqual(into, VALUE)
            self.assertNotIn(VALUE[:32], plain.get(key))
            with self.assertRaises(kvrail.Corrupt):
                self.client(seal_key_file=self.keys("two"), local=local).get(key)

    def test_names_are_sealed(self):
        client, key = self.client(seal_key_file=self.keys("one", "names"), seal_names=True), fresh()
        client.put(key, VALUE)
        self.assertEqual(client.exists([key]), [True])
        self.assertEqual(self.client().exists([key]), [False])
        with self.assertRaisesRegex(kvrail.Invalid, "names:HEX"):
            self.client(seal_key_file=self.keys("one"), seal_names=True)

    def test_views_say_why_not(self):
        path, key = self.keys("one"), fresh()
        client = self.client(seal_key_file=path)
        client.put(key, VALUE)
        with self.assertRaisesRegex(kvrail.NotSupported, "seals values"):
            client.view(key)

        async def main():
            async with kvrail.aio.Client(server().address, num_clients=1, seal_key_file=path) as same:
                self.assertEqual(await same.get(key), VALUE)
                with self.assertRaisesRegex(kvrail.NotSupported, "seals values"):
                    await same.view(key)

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
