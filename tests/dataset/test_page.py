"""The code of the page about datasets runs as it stands; that of training is run by `test_torch`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dataset.roots import DOCUMENTED, run
from tests.documents import blocks

pytestmark = pytest.mark.slow  # processes that read

PHOTOS = (
    "CREATE TABLE photos (id BIGINT, site VARCHAR, image BLOB) PARTITIONED BY (site)",
    "INSERT INTO photos VALUES (1, 'Oslo', X'30313233343536'), (2, 'Oslo', X'6c617374'), (3, 'Bergen', X'aa')",
)


def test_the_documented_datasets_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path)(*DOCUMENTED, *PHOTOS)
    names: dict[str, Any] = {"ROOT": str(tmp_path), "__name__": "__main__"}
    training = blocks("client/docs/dataset.md", "python", "Training with PyTorch")
    for block in (each for each in blocks("client/docs/dataset.md", "python") if each not in training):
        exec(compile(block, "dataset.md", "exec"), names)  # noqa: S102 - our own documents
    printed = capsys.readouterr().out
    assert "7 b'2345' b'last'" in printed
    assert printed.splitlines()[-1].isdecimal()  # the rows that the other processes have read
    assert names["frame"].to_dict("list") == {"device": [1], "celsius": [12.5]}
