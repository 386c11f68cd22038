# SPDX-License-Identifier: Apache-2.0
"""A plugin for pytest: in tests/v1/distributed/test_native_connector_l2_adapter.py of LMCache 0.5.6, as its source
package has it, our client stands in for the mock of a connector. KVRAIL_SERVER is the address of a kv-server.

The mock copies a value inside submit, so some tests drop a memory object at once after it. A real connector reads the
memory until the completion, as LMCache's controllers keep it, and would store what other object came to lie there: the
checksums of kvrail find that, and the store fails. So the objects live as long as the test.
"""

import itertools
import os

import pytest
from kvrail.lmcache import Client

_numbers = itertools.count()


class Ours(Client):
    """Each has keys of its own, as each mock has a store of its own."""

    def __init__(self):
        super().__init__(
            os.environ["KVRAIL_SERVER"], prefix=f"upstream{next(_numbers)}/", num_clients=1
        )


@pytest.fixture(autouse=True)
def kvrail_for_mock(request, monkeypatch):
    module = request.module
    mock = module.MockNativeConnector
    monkeypatch.setattr(module, "MockNativeConnector", Ours)
    recording = module.RecordingNativeConnector
    recording.__bases__ = (Ours,)
    make, kept = module.create_memory_obj, []

    def create_memory_obj(*args, **kwargs):
        kept.append(make(*args, **kwargs))
        return kept[-1]

    monkeypatch.setattr(module, "create_memory_obj", create_memory_obj)
    yield
    recording.__bases__ = (mock,)
