"""The tables of tests/README.md and of the slow modules name what there is, and all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import takewhile
from pathlib import Path

import pytest

from tests.slow_tests import QUICK_MODULES, SAMPLED, SLOW_DIRECTORIES, SLOW_MODULES, TESTS, is_slow

TOP = TESTS.parent
README = (TESTS / "README.md").read_text()
MODULES = sorted(str(file.relative_to(TESTS).with_suffix("")) for file in TESTS.rglob("test_*.py"))
NAME = re.compile(r"`((?:\w+/)?(?:test_[\w*]+)|\w+/)`")
NAMED = sorted(set(NAME.findall(README)))
"""Modules, patterns of modules, and directories."""

TABLES = ("The partitioning spec", "What the documents promise", "The project itself")
"""The tables from what is promised to what holds it."""


def rows(heading: str) -> Iterator[tuple[str, str]]:
    """The rows of the table under a heading, below its own two lines."""
    lines = iter(README.splitlines())
    for line in lines:
        if line == f"## {heading}":
            break
    table = [line for line in takewhile(lambda line: not line.startswith("## "), lines) if line.startswith("|")]
    for line in table[2:]:
        first, second = line.strip("| ").split(" | ")
        yield first, second


def documents() -> Iterator[Path]:
    yield TOP / "README.md"
    for part in ("server", "client"):
        yield from (TOP / part).rglob("*.md")


def is_named_by(module: str, name: str) -> bool:
    return module.startswith(name) if name.endswith("/") else fnmatch(module, name)


@pytest.mark.parametrize("name", NAMED)
def test_what_the_readme_names_is_there(name: str) -> None:
    assert any(is_named_by(module, name) for module in MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_is_named_by_what_it_holds(module: str) -> None:
    held_by = [name for heading in TABLES for _, held in rows(heading) for name in NAME.findall(held)]
    assert any(is_named_by(module, name) for name in held_by), "name it in a table of tests/README.md"


def test_the_subjects_are_headings_of_the_documents() -> None:
    headings = {
        line.lstrip("# ").casefold()
        for document in documents()
        for line in document.read_text().splitlines()
        if re.match(r"#{1,4} ", line)
    }
    subjects = [subject for subject, _ in rows("What the documents promise")]
    assert subjects
    assert not [subject for subject in subjects if subject.casefold() not in headings]


def test_every_row_says_which_tests_hold_it() -> None:
    for heading in TABLES:
        held = dict(rows(heading))
        assert held
        assert not [first for first, second in held.items() if not NAME.search(second)]


def test_the_slow_modules_are_there() -> None:
    assert {directory.name for directory in TESTS.iterdir() if directory.is_dir()} >= SLOW_DIRECTORIES.keys()
    sampled = {name.partition("::")[0] for name in SAMPLED}
    assert {name.removesuffix(".py") for name in QUICK_MODULES | SLOW_MODULES.keys() | sampled} <= set(MODULES)


def test_a_quick_run_has_tests_of_every_layer() -> None:
    quick = {Path(module).parts[0] for module in MODULES if not is_slow(TESTS / f"{module}.py")}
    assert quick >= {
        "model",
        "planning",
        "catalog",
        "engine",
        "flight",
        "admin",
        "search",
        "service",
        "spark",
        "hostile",
    }
