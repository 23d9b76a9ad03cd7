"""The soak, for some seconds: what an hour of it rests on, and that it finds what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.faults.soak import MIB, Sample, growth, soak


def test_a_short_soak_finds_nothing(tmp_path: Path, say: Callable[[str], None]) -> None:
    lines: list[str] = []
    run = soak(tmp_path / "root", 0.3, 1, lines.append)
    assert run.findings == []
    assert run.counts["changes"] > 10
    assert run.counts["reads"] > 1
    say(f"soak:{lines[-1].strip()}")


def test_what_grows_is_found() -> None:
    flat = [Sample(at=n, memory=300 * MIB, files=500, handles=40, threads=60) for n in range(40)]
    assert growth(flat) == []
    grown = [Sample(at=n, memory=(300 + 40 * n) * MIB, files=500 + 60 * n, handles=40, threads=60) for n in range(40)]
    assert [each.partition(" ")[0] for each in growth(grown)] == ["memory", "files"]
    assert growth(flat[:8]) == []
