# SPDX-License-Identifier: Apache-2.0
"""A plugin for pytest: in tests/v1/distributed/test_native_connector_l2_adapter.py of LMCache 0.5.6, as its source
package has it, our client stands in for the mock of a connector. KVRAIL_SERVER is the address of a kv-server.
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
    yield
    recording.__bases__ = (mock,)
