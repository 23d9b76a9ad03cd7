"""The benchmarks start: nothing else imports them, so what moves in the service would leave them behind."""

from __future__ import annotations

import runpy
import sys

import pytest

MODULES = (
    "",
    ".console",
    ".durability",
    ".maintenance",
    ".peers",
    ".replicas_model",
    ".requests",
    ".spark_peers",
    ".tpc",
)


@pytest.mark.parametrize("module", [f"benchmarks{name}" for name in MODULES])
def test_a_command_of_the_benchmarks_starts(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["", "--help"])
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module if "." in module else f"{module}.__main__", run_name="__main__", alter_sys=True)
    assert ended.value.code == 0
    assert f"python -m {module}" in capsys.readouterr().out
