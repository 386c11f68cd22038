# SPDX-License-Identifier: Apache-2.0
"""As much of vLLM and SGLang as kvrail.vllm and kvrail.sglang import, for tests without an engine. vLLM's is in two
shapes: that of 0.25, whose jobs have block_ids and whose results say little, and that of 0.33."""

import dataclasses
import enum
import importlib
import sys
import types


class LookupResult(enum.Enum):
    MISS, HIT, HIT_PENDING, RETRY = range(4)


@dataclasses.dataclass
class Context:
    req_id: str


@dataclasses.dataclass
class Job:
    job_id: int
    keys: list
    chunk_ids: list
    is_promotion: bool = False


@dataclasses.dataclass
class OldJob:
    job_id: int
    keys: list
    block_ids: list
    is_promotion: bool = False


def _module(name, **names):
    module = types.ModuleType(name)
    module.__path__ = []
    module.__dict__.update(names)
    sys.modules[name] = module
    return module


def vllm(old=False):
    """Install the stand-in, and return kvrail.vllm as imported with it, and its factory."""

    @dataclasses.dataclass
    class OldResult:
        job_id: int
        success: bool

    @dataclasses.dataclass
    class JobResult(OldResult):
        successful_keys: object = None
        transfer_time: object = None
        transfer_bytes: object = None

    class OldManager:
        def __init__(self, offloading_spec, primary_kv_view, tier_type):
            self.tier_type = tier_type

    class Manager:
        def __init__(self, offloading_spec, primary_kv_view, tier_type, backpressure_detector=None):
            self.tier_type, self.bp_detector = tier_type, backpressure_detector

    class Factory:
        registry: dict = {}

        @classmethod
        def register_tier(cls, tier_type, module_path, class_name):
            if tier_type in cls.registry:
                raise ValueError(f"Tier '{tier_type}' is already registered.")
            cls.registry[tier_type] = (module_path, class_name)

    for name in ("vllm", "vllm.v1", "vllm.v1.kv_offload", "vllm.v1.kv_offload.tiering"):
        _module(name)
    sys.modules["vllm.v1.kv_offload"].base = _module(
        "vllm.v1.kv_offload.base",
        LookupResult=LookupResult,
        RequestOffloadingContext=type("RequestOffloadingContext", (), {}),
    )
    base = _module(
        "vllm.v1.kv_offload.tiering.base",
        SecondaryTierManager=OldManager if old else Manager,
        JobResult=OldResult if old else JobResult,
    )
    if not old:
        base.Medium = enum.Enum("Medium", "CPU STORAGE")
    sys.modules["vllm.v1.kv_offload.tiering"].base = base
    _module("vllm.v1.kv_offload.tiering.factory", SecondaryTierFactory=Factory)
    sys.modules.pop("kvrail.vllm", None)
    return importlib.import_module("kvrail.vllm"), Factory


def remove():
    for name in [n for n in sys.modules if n.split(".")[0] == "vllm" or n == "kvrail.vllm"]:
        del sys.modules[name]
