"""The soak, for some seconds: what an hour of it rests on, and that it finds what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.soak import MIB, Sample, growth, soak


@pytest.mark.full
def test_a_short_soak_finds_nothing(tmp_path: Path, say: Callable[[str], None]) -> None:
    lines: list[str] = []
    run = soak(tmp_path / "root", 0.3, 1, lines.append)
    assert run.findings == []
    assert run.counts["changes"] > 10
    assert run.counts["reads"] > 1
    say(f"soak:{lines[-1].strip()}")


def samples(
    *, memory: int = 0, files: int = 0, changes: Callable[[int], int] = lambda n: 10 * n, seconds: float = 60
) -> list[Sample]:
    """Forty samples; by how many MiB and files there are more each time."""
    return [
        Sample(
            at=n * seconds,
            memory=(300 + memory * n) * MIB,
            files=500 + files * n,
            handles=40,
            threads=60,
            changes=changes(n),
        )
        for n in range(40)
    ]


@pytest.mark.parametrize(
    ("measured", "found"),
    [
        pytest.param(samples(), [], id="nothing grows"),
        pytest.param(samples(memory=40, files=60), ["memory", "files"], id="memory and files"),
        pytest.param(samples(files=60, changes=lambda n: n * n), [], id="files for more changes"),
        pytest.param(samples(memory=40, files=60, seconds=5), [], id="while it warms up"),
        pytest.param(samples(memory=40, files=60)[:8], [], id="too short"),
    ],
)
def test_what_grows_in_the_second_half_is_found(measured: list[Sample], found: list[str]) -> None:
    assert [each.partition(" ")[0] for each in growth(measured)] == found
