# SPDX-License-Identifier: Apache-2.0
"""Shared by the tiers of vLLM and SGLang, and by LMCache's adapter: options of a client in a configuration, the namespace of
one model with its weights, and how an engine clears it."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from . import _calls, _native, keys

# Options of kvrail's client that pass through a configuration as they are.
CLIENT_OPTIONS = (
    "num_clients",
    "num_threads",
    "provider",
    "nic",
    "num_rails",
    "buffer_bytes",
    "depth",
    "psk",
    "psk_file",
    "cert_file",
    "key_file",
    "ca_file",
    "crl_file",
    "server_name",
    "cluster",
    "log_level",
    "copies",
    "local",
    "local_socket",
    "seal_key_file",
    "seal_names",
)


def digest(fields: Mapping[str, Any]) -> str:
    """16 hexadecimal digits that differ when a field does."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def weights_of(model: str, revision: str = "") -> str:
    """A text that differs when a model's weights do: a fingerprint of the files, if `model` is their folder; the commit, if
    Hugging Face's cache has one for this name; else `model` itself."""
    try:
        if os.path.exists(model):
            return keys.fingerprint_weights(model)
        from huggingface_hub import try_to_load_from_cache

        config = try_to_load_from_cache(model, "config.json", revision=revision or None)
        return pathlib.Path(config).parent.name if isinstance(config, str) else model
    except (ImportError, OSError, ValueError):  # no package, unreadable files, no repository's name
        return model


def name_of(options: Mapping[str, Any], engine: str) -> str:
    """The readable beginning of the namespace: the option, or the engine's name. Raises ValueError with a sentence."""
    base = options.get("namespace") or engine
    if not isinstance(base, str):
        raise ValueError(f"kvrail: namespace is a text, not {base!r}")
    return base


def clear(client: _native.Client, allowed: bool) -> None:
    """Clear the client's namespace for an engine. Raises kvrail.Error if a server does not confirm, and RuntimeError if the
    configuration forbids it."""
    if not allowed:
        raise RuntimeError(
            "kvrail: nothing was cleared, because allow_clear is 0. Set it to 1 if this engine may clear the values "
            "of all engines that share its namespace, or run `kv-client clear`"
        )
    result = client.clear(None)
    _calls.of_servers(result, _calls.who_is_down(client, [result]))


def seconds(name: str, value: Any) -> float:
    """A time of a configuration. Raises ValueError with a sentence."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < 1e9:
        raise ValueError(f"kvrail: {name} is in seconds, above 0, not {value!r}")
    return number


def flag(name: str, value: Any) -> bool:
    """A switch of a configuration. A text is refused, because engines read every text as yes, even "0"."""
    if not isinstance(value, int) or value not in (0, 1):
        raise ValueError(f"kvrail: {name} is 0 or 1, as a number and not as a text, not {value!r}")
    return bool(value)


def servers_of(options: Mapping[str, Any], where: str) -> str | list[str]:
    """The servers of a configuration. Raises ValueError with a sentence that names the place of the option."""
    servers = options.get("servers")
    if isinstance(servers, str) and servers.strip():
        return servers
    if isinstance(servers, (list, tuple)) and servers and all(isinstance(s, str) for s in servers):
        return list(servers)
    raise ValueError(
        f'kvrail: {where} needs "servers", as "10.0.0.1:7411,10.0.0.2:7411", not {servers!r}'
    )
