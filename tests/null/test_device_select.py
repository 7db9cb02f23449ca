"""Which device a request names."""

from __future__ import annotations

import dataclasses

import pytest

from oa import errors
from oa._device import Snapshot, choices, select
from tests.null.device_fixtures import card, snapshot

LAVAPIPE, SWIFTSHADER = snapshot("lavapipe-22.3"), snapshot("swiftshader")
CARD = dataclasses.replace(card(), name="Big Card", uuid="00112233445566778899aabbccddeeff")
BUILT_IN = dataclasses.replace(CARD, name="Small Chip", kind="integrated", uuid="ff" * 16)
OLD = dataclasses.replace(CARD, name="Old Card", api=(1, 1, 0), uuid="0e" * 16)
ALL = [LAVAPIPE, OLD, BUILT_IN, CARD, SWIFTSHADER]


@pytest.mark.parametrize(
    ("request_", "index"),
    [
        ("auto", 3),
        ("AUTO", 3),
        ("gpu", 3),
        ("cpu", 0),
        (0, 0),
        (4, 4),
        ("2", 2),
        ("small", 2),
        ("BIG card", 3),
        ("swift", 4),
        ("00112233445566778899aabbccddeeff", 3),
        ("00112233-4455-6677-8899-AABBCCDDEEFF", 3),
        ("card", 3),  # the usable one of two matches
    ],
)
def test_requests(request_: str | int, index: int) -> None:
    assert select(ALL, request_) == index


def test_preferences() -> None:
    assert select([LAVAPIPE, BUILT_IN], "auto") == 1
    assert select([SWIFTSHADER], "auto") == 0
    assert select([OLD, LAVAPIPE], "auto") == 1
    more = dataclasses.replace(CARD, heaps=tuple(dataclasses.replace(h, size=4 * h.size) for h in CARD.heaps))
    assert select([CARD, more], "auto") == 1
    virtual = dataclasses.replace(CARD, kind="virtual")
    assert select([virtual, BUILT_IN], "auto") == 1


@pytest.mark.parametrize("request_", ["nvidia", "9", "-1", "", "old", 7, -1, "ee" * 16])
def test_unknown_names_list_the_valid_ones(request_: str | int) -> None:
    with pytest.raises(errors.DeviceNotFound) as said:
        select(ALL, request_)
    for word in ("'auto'", "'gpu'", "'cpu'", "Big Card", CARD.uuid, "llvmpipe"):
        assert word in str(said.value)
    assert "Old Card," not in str(said.value).partition("valid are")[2]


def test_no_such_kind() -> None:
    with pytest.raises(errors.DeviceNotFound, match="no hardware device is present"):
        select([LAVAPIPE], "gpu")
    with pytest.raises(errors.DeviceNotFound, match="no software device is present"):
        select([CARD], "cpu")
    with pytest.raises(errors.DeviceNotFound, match=r"lacks memory"):
        select([snapshot("radv-navi21")], "auto")
    with pytest.raises(errors.DeviceNotFound, match=r"cannot be used: it lacks memory"):
        select([snapshot("radv-navi21"), LAVAPIPE], 0)
    with pytest.raises(errors.DeviceNotFound, match=r"Old Card lacks Vulkan 1\.2"):
        select([OLD], "auto")
    with pytest.raises(errors.DeviceNotFound, match="no usable Vulkan device"):
        select([], "auto")


def test_choices() -> None:
    assert choices([LAVAPIPE]).startswith("'auto', 'cpu', 0 (llvmpipe")
    none: list[Snapshot] = []
    assert choices(none).startswith("none")
