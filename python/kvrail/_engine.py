# SPDX-License-Identifier: Apache-2.0
"""Shared by the tiers of vLLM and SGLang: options of a client in a configuration, and short hashes that separate the keys
of one model, layout and rank from all others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

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
)


def namespace(fields: Mapping[str, Any]) -> str:
    """16 hexadecimal digits that differ when a field does."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
