"""Rules of the code that no linter knows: each test reads all modules once, and lists every offence."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.selection import LONG_MODULES, QUICK_MODULES, SPARK_SESSION, TESTS

TOP = Path(__file__).parent.parent
SERVER = TOP / "server" / "lance_flight"

NAMED_TWICE = {
    "Column",  # of grouped tables, and of predicates
    "Truncate",  # the statement of SQL, and the transform of the spec
}
"""Names of two public classes."""

PERSONS = re.compile(r"\b(somebody|someone|nobody|anybody|whoever)\b", re.IGNORECASE)
"""Words of a first sentence for a person where a client, a writer or a reader is meant."""
CLAUSES = re.compile(r"^(What|Who|Whose|Whether|How|Where|When|Which|Those|That|Why)\b")
"""First words of a docstring that is a clause, and no description."""
IMPORT_OF_A_TEST = re.compile(r"\s*(from|import) (tests\.)?([a-z_.]+\.)?test_|\s*from tests[a-z_.]* import .*\btest_")

Trees = Mapping[Path, ast.Module]


@pytest.fixture(scope="module")
def trees() -> Trees:
    """Every module of the server and of the client, parsed."""
    # A collection in the middle of it lets Python 3.11 miscount its recursion (python/cpython#106905).
    gc.disable()
    try:
        files = [file for part in ("server", "client") for file in sorted((TOP / part).rglob("*.py"))]
        return {file: ast.parse(file.read_text()) for file in files}
    finally:
        gc.enable()


def name(file: Path) -> str:
    """A file as an offence names it."""
    return str(file.relative_to(TOP))


def test_no_two_public_classes_have_one_name(trees: Trees) -> None:
    places: dict[str, list[str]] = {}
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name(file))
    twice = {each: found for each, found in places.items() if len(found) > 1}
    assert twice.keys() == NAMED_TWICE, twice


@pytest.mark.parametrize("words", [PERSONS, CLAUSES], ids=["no persons", "no clauses"])
def test_first_sentences_describe_what_they_stand_above(trees: Trees, words: re.Pattern[str]) -> None:
    offences = [
        f"{name(file)}: {first}"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and words.search(first := (ast.get_docstring(node) or "").split("\n")[0])
    ]
    assert offences == []


def message_texts(tree: ast.Module) -> Iterator[ast.JoinedStr]:
    """The f-strings of error messages: within a `raise`, or handed to a context manager that raises."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            yield from (part for part in ast.walk(node) if isinstance(part, ast.JoinedStr))
        if isinstance(node, ast.With):
            yield from (part for item in node.items for part in ast.walk(item) if isinstance(part, ast.JoinedStr))


def test_no_message_is_made_of_a_uri(trees: Trees) -> None:
    """A URI tells a client where the server keeps its tables."""
    offences = [
        f"{name(file)}: {ast.unparse(text)}"
        for file, tree in trees.items()
        if file.is_relative_to(SERVER)
        for text in message_texts(tree)
        for part in ast.walk(text)
        if isinstance(part, ast.Attribute) and part.attr == "uri"
    ]
    assert offences == []


def test_no_test_module_imports_another() -> None:
    """What two modules share lies in a module beside them that is named after what it holds."""
    offences = [
        f"{name(file)}:{number}: {line.strip()}"
        for file in sorted((TOP / "tests").rglob("*.py"))
        # Programs that a test starts are strings in its text: their lines count as well.
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if IMPORT_OF_A_TEST.match(line)
    ]
    assert offences == []


def test_the_tables_of_the_selection_name_modules_that_are_there() -> None:
    named = {f"{place}/test_{name}.py" for place, names in LONG_MODULES.items() for name in names}
    named |= QUICK_MODULES | {name.removeprefix("tests/") for name in SPARK_SESSION}
    assert sorted(name for name in named if not (TESTS / name).exists()) == []
