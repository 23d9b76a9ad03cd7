"""Wheel and sdist, built twice from two exports of the same commit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from checkout import Checkout, ReleaseError

CONSTRAINTS = Path(__file__).parent / "constraints.txt"
"""The versions of the build backend: another one may write other bytes."""


def build_twice(checkout: Checkout, work: Path) -> list[Path]:
    """Return sdist and wheel; `ReleaseError` names the one whose bytes differ between the two builds."""
    first, second = (_build(checkout, work / name) for name in ("first", "second"))
    if [file.name for file in first] != [file.name for file in second]:
        raise ReleaseError(f"two builds made other files: {first} and {second}")
    for one, other in zip(first, second, strict=True):
        if one.read_bytes() != other.read_bytes():
            raise ReleaseError(
                f"{one.name} has other bytes each time it is built; expected the same: `diffoscope {one} {other}`"
            )
    return first


def _build(checkout: Checkout, directory: Path) -> list[Path]:
    source, out = checkout.export(directory / "source"), directory / "dist"
    ended = subprocess.run(
        ["uv", "build", "--quiet", "--out-dir", str(out), "--build-constraints", str(CONSTRAINTS)],
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(checkout.epoch), "PYTHONHASHSEED": "0"},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if ended.returncode:
        raise ReleaseError(f"uv build failed: {ended.stderr.strip()}")
    return sorted(file for file in out.iterdir() if file.suffix in {".whl", ".gz"})
