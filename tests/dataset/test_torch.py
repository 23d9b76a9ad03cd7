"""PyTorch reads datasets: by an interpreter that has it, which LANCE_FLIGHT_TORCH names, or else this one."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance_flight
import pytest
from lance_flight.errors import Unsupported

from tests.dataset.roots import DOCUMENTED, run
from tests.documents import blocks

pytestmark = pytest.mark.slow  # processes of PyTorch

PROGRAM = Path(__file__).with_name("torch_program.py")
HAS_TORCH = importlib.util.find_spec("torch") is not None
PYTHON = os.environ.get("LANCE_FLIGHT_TORCH") or (sys.executable if HAS_TORCH else None)


@pytest.mark.skipif(PYTHON is None, reason="LANCE_FLIGHT_TORCH names no interpreter with PyTorch and this package")
def test_torch_reads_every_row_once_and_resumes(root: Path) -> None:
    assert PYTHON is not None
    shown = subprocess.run([PYTHON, PROGRAM, root], check=True, capture_output=True, text=True, timeout=240)
    found: dict[str, Any] = json.loads(shown.stdout)
    everything = lance_flight.dataset(root, "readings")
    assert found["types"] == {"id": "torch.int64", "celsius": "torch.float64"}
    assert found["sum"] == sum(everything.to_table()["celsius"].to_pylist())
    assert found["sizes"] == [32, 32, 32, 32, 7]
    assert found["is_iterable"]
    chosen = lance_flight.dataset(root, "readings", filter="celsius > 10 AND site <> 's3'").to_table()["id"].to_pylist()
    assert sorted(n for rank in found["ranks"] for batch in rank for n in batch) == sorted(chosen)
    one, other = (sum(map(len, rank)) for rank in found["ranks"])
    assert abs(one - other) <= 2
    assert sorted(n for batch in found["whole"] for n in batch) == sorted(chosen)
    assert found["first"] + found["rest"] == found["whole"]
    assert found["next"] == [1, 2, len(found["whole"])]
    one, other = ([n for batch in epoch for n in batch] for epoch in found["epochs"])
    assert sorted(one) == sorted(other) == sorted(chosen)
    assert one != other
    assert "say workers= to to_torch" in found["refused"]


@pytest.mark.skipif(PYTHON is None, reason="LANCE_FLIGHT_TORCH names no interpreter with PyTorch and this package")
def test_the_documented_training_runs_as_it_stands(tmp_path: Path) -> None:
    assert PYTHON is not None
    run(tmp_path / "root")(*DOCUMENTED)
    (block,) = blocks("client/docs/dataset.md", "python", "Training with PyTorch")
    program = tmp_path / "training.py"
    program.write_text(f"ROOT = {str(tmp_path / 'root')!r}\n{block}")
    shown = subprocess.run([PYTHON, program], check=True, capture_output=True, text=True, timeout=240)
    assert shown.stdout.splitlines()[-1] == "2 2", "one row was delivered before"


@pytest.mark.skipif(HAS_TORCH, reason="PyTorch is installed here")
def test_a_program_without_torch_is_told_to_install_it(root: Path) -> None:
    with pytest.raises(Unsupported, match="pip install torch"):
        lance_flight.dataset(root, "readings", columns=["id"]).to_torch(8)
