# SPDX-License-Identifier: Apache-2.0
"""What vLLM's entry point group `vllm.general_plugins` calls, in each of its processes: it makes the tier's name known.

It lies beside the package kvrail, which it does not import: libfabric is loaded where the tier is made, in the scheduler,
and not in the processes of GPUs, which may have one of their own. It does nothing in a vLLM without secondary tiers.
"""

from __future__ import annotations

TIER_TYPE = "kvrail"


def register() -> None:
    """Register the secondary tier `kvrail`. A second call does nothing."""
    try:
        from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
    except ImportError:
        return
    try:
        SecondaryTierFactory.register_tier(TIER_TYPE, "kvrail.vllm", "KVRailTierManager")
    except ValueError:
        pass  # it is registered
