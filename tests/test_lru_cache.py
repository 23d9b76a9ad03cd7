"""What a cache keeps, and what makes room in it."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from lance_flight.lru_cache import IDLE_SECONDS, LruCache, VersionCache


def test_the_least_recently_used_entry_makes_room() -> None:
    cache = LruCache[str, bytes](2)
    cache.put("a", b"1")
    cache.put("b", b"2")
    cache.get("a")
    cache.put("c", b"3")
    assert [cache.get(name) for name in "abc"] == [b"1", None, b"3"]


def test_entries_are_bounded_in_their_weight() -> None:
    cache = LruCache[str, bytes](9, most_weight=10, weigh=len)
    cache.put("a", b"x" * 6)
    cache.put("a", b"y" * 6)
    cache.put("b", b"z" * 4)
    assert len(cache) == 2
    cache.put("c", b"w")
    assert [cache.get(name) for name in "abc"] == [None, b"z" * 4, b"w"]
    cache.put("d", b"v" * 11)
    assert len(cache) == 0


def test_a_dropped_entry_gives_its_room_back() -> None:
    cache = LruCache[str, bytes](9, most_weight=4, weigh=len)
    cache.put("a", b"1234")
    cache.pop("a")
    cache.pop("never there")
    cache.put("b", b"5678")
    assert cache.get("b") == b"5678"


def test_entries_are_discarded_by_their_values() -> None:
    cache = LruCache[str, bytes](9, most_weight=9, weigh=len)
    for name, value in {"a": b"old", "b": b"new", "c": b"old"}.items():
        cache.put(name, value)
    cache.discard(lambda value: value == b"old")
    assert (len(cache), cache.weight, cache.get("b")) == (1, 3, b"new")


def test_an_entry_that_is_not_used_for_long_makes_room_for_the_next_one() -> None:
    now = [0.0]
    cache = LruCache[str, int](9, idle_seconds=10, now=lambda: now[0])
    cache.put("idle", 1)
    cache.put("used", 2)
    now[0] = 9
    assert cache.get("used") == 2
    now[0] = 11
    cache.put("new", 3)
    assert [cache.get(name) for name in ("idle", "used", "new")] == [None, 2, 3]


def test_facts_are_known_of_the_last_versions_of_each_table() -> None:
    facts, read = VersionCache[str, int, int | None](9), list[int]()

    def fact(version: int) -> int | None:
        return facts.find("t", version, lambda: (read.append(version), version or None)[1])

    assert [fact(version) for version in (0, 1, 1, 2, 3, 4, 1, 0)] == [None, 1, 1, 2, 3, 4, 1, None]
    assert read == [0, 1, 2, 3, 4, 0], "only what the versions after it have displaced is read again"


def test_what_is_known_of_versions_does_not_grow_with_them() -> None:
    now = count(0, IDLE_SECONDS / 10)
    facts = VersionCache[int, int, bytes](100_000, now=lambda: next(now))
    for version in range(1000):
        facts.put(0, version, b"of the table that stays")
        facts.put(version + 1, 0, b"of one that is dropped")
    assert len(facts) <= 10
    assert facts.get(0, 999) is not None


@pytest.mark.parametrize("bound", [{"most": 4}, {"most": 99, "most_weight": 4, "weigh": len}], ids=str)
def test_the_owner_that_has_most_makes_room(bound: dict[str, Any]) -> None:
    cache = LruCache[str, str](**bound)
    cache.put("mine", "1", owner="ann")
    for number in range(9):
        cache.put(str(number), "1", owner="bob")
    assert (cache.get("mine"), cache.values()) == ("1", ["1"] * 4)
    assert [cache.get(str(number)) for number in range(5, 9)] == [None, "1", "1", "1"]
