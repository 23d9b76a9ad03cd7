"""What a cache keeps, and what makes room in it."""

from __future__ import annotations

from lance_flight.lru_cache import LruCache


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
