"""Records that are replaced, and sets that grow: what they share cannot be seen."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.domain.records import GrowingSet, replace


@dataclass(frozen=True)
class WithDict:
    one: int = 1
    other: str = "other"


@dataclass(frozen=True, slots=True)
class WithSlots:
    one: int = 1
    other: str = "other"


@pytest.mark.parametrize("kind", [WithDict, WithSlots])
def test_a_replaced_record_is_a_frozen_record_of_its_own(kind: type[Any]) -> None:
    before = kind()
    after = replace(before, one=2)
    assert (before, after) == (kind(1), kind(2))
    with pytest.raises(FrozenInstanceError):
        after.one = 3
    with pytest.raises(TypeError):
        replace(before, missing=2)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 9))))
def test_every_growing_set_keeps_the_items_it_had(steps: list[tuple[int, bool, int]]) -> None:
    """Each step adds an item to any of the sets so far, or takes one away; compared with plain sets."""
    sets: list[tuple[GrowingSet[int], frozenset[int]]] = [(GrowingSet[int](), frozenset())]
    for item, adds, which in steps:
        grown, plain = sets[which % len(sets)]
        sets.append((grown.with_item(item), plain | {item}) if adds else (grown.without(item), plain - {item}))
    for grown, plain in sets:
        assert grown == plain
        assert len(grown) == len(plain)
        assert {*grown} == plain
        assert all((item in grown) == (item in plain) for item in range(6))
