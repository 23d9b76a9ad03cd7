"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent
FILES = {
    ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__"): file
    for base in (TOP / "server", TOP / "client")
    for file in sorted(base.rglob("*.py"))
}
WITH_EXAMPLES = [name for name, file in FILES.items() if ">>> " in file.read_text()]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
