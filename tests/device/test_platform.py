"""What this run of the tests claims to run on is what it does run on.

Continuous integration sets OA_EXPECT_DRIVER and OA_EXPECT_VALIDATION, and without them there is nothing to hold the device to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from oa import _device
from oa._vk import Instance, open_instance
from oa.config import CONFIG


@pytest.fixture
def instance() -> Iterator[Instance]:
    opened = open_instance(validation=CONFIG.validate)
    yield opened
    opened.close()


def test_a_device_answers_to_the_name(instance: Instance, device_name: str) -> None:
    snapshots = [adapter.snapshot() for adapter in instance.adapters()]
    chosen = snapshots[_device.select(snapshots, device_name)]
    expected = os.environ.get("OA_EXPECT_DRIVER")
    if expected:
        assert expected.lower() in f"{chosen.driver_id} {chosen.driver_name}".lower()


def test_validation_is_on_where_it_must_be(instance: Instance) -> None:
    assert CONFIG.validate or os.environ.get("OA_EXPECT_VALIDATION") != "1"
    assert all(connection.validation == CONFIG.validate for connection in instance.connections)
