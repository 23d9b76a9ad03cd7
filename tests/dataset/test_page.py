"""The code of the page about datasets runs as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.dataset.roots import run
from tests.documents import blocks

BEFORE = (
    "CREATE TABLE readings (device BIGINT, site VARCHAR, celsius DOUBLE) PARTITIONED BY (site)",
    "INSERT INTO readings VALUES (1, 'Oslo', 12.5), (2, 'Oslo', -3), (3, 'Lima', 22)",
)


def test_the_documented_datasets_are_read(tmp_path: Path) -> None:
    run(tmp_path)(*BEFORE)
    names: dict[str, Any] = {"ROOT": str(tmp_path)}
    for block in blocks("client/docs/dataset.md", "python"):
        exec(compile(block, "dataset.md", "exec"), names)  # noqa: S102 - our own documents
    assert names["frame"].to_dict("list") == {"device": [1], "celsius": [12.5]}
