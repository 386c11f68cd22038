# SPDX-License-Identifier: Apache-2.0
"""guide.py -- for tests that run the commands of docs/guide/engines.md: an engine's blocks, and a kv-server as the page
starts it.

Only the server's address is changed, to one that is free here."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

import kvrail

MODEL = "Qwen/Qwen3-0.6B"
QWEN3 = {  # as much of its config.json as engines read before they load weights
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
}
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "engines.md"


class Guide:
    """with Guide("vLLM") as guide: in a folder of its own, with the page's key, beside a server that demands it.
    The name is that of a section."""

    def __init__(self, name):
        self.text = PAGE.read_text()
        (section,) = re.findall(rf"^## {name}\n(.*?)(?=^## )", self.text, re.M | re.S)
        self.commands = re.findall(r"^```\n(.*?)^```", section, re.M | re.S)
        (self.listens,) = set(re.findall(r"kv-server --listen-addr (\S+)", self.text))

    def __enter__(self):
        self.back = os.getcwd()
        self.folder = tempfile.TemporaryDirectory()
        os.chdir(self.folder.name)
        (make,) = re.findall(r"^kv-server --make-psk .*?(?=  #)", self.text, re.M)
        self.run(make)
        self.server = kvrail.Server(memory_mb=256, psk_file="kvrail.key")
        return self

    def __exit__(self, *_):
        self.server.close()
        os.chdir(self.back)
        self.folder.cleanup()

    def block(self, word):
        """The commands of the block that has this word."""
        (block,) = [b for b in self.commands if word in b]
        assert self.listens in block, block
        return block.replace(self.listens, self.server.address)

    def words(self, command):
        """The arguments of a command, with a folder that has the model's config.json in place of its name."""
        (given,) = re.findall(rf"{command} (.*?'\n?.*?')\s*$", self.block(command), re.M | re.S)
        words = shlex.split(given.replace("\\\n", ""))
        pathlib.Path("model").mkdir()
        pathlib.Path("model", "config.json").write_text(json.dumps(QWEN3))
        words[words.index(MODEL)] = "model"
        return words

    def run(self, commands):
        """Run them as a shell does that stops at a failure; what they print."""
        built = str(pathlib.Path(os.environ["KVRAIL_KV_SERVER"]).resolve().parent)
        done = subprocess.run(
            ["bash", "-euc", commands],
            env={**os.environ, "PATH": built + os.pathsep + os.environ["PATH"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=180,
        )
        print(done.stdout)
        assert done.returncode == 0, done.returncode
        return done.stdout
