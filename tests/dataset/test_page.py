"""The code of the page about datasets runs as it stands; that of training is run by `test_torch`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.dataset.roots import DOCUMENTED, run
from tests.documents import blocks


def test_the_documented_datasets_are_read(tmp_path: Path) -> None:
    run(tmp_path)(*DOCUMENTED)
    names: dict[str, Any] = {"ROOT": str(tmp_path)}
    training = blocks("client/docs/dataset.md", "python", "Training with PyTorch")
    for block in (each for each in blocks("client/docs/dataset.md", "python") if each not in training):
        exec(compile(block, "dataset.md", "exec"), names)  # noqa: S102 - our own documents
    assert names["frame"].to_dict("list") == {"device": [1], "celsius": [12.5]}
