"""The suite by which ADBC validates its drivers, in Go, as it is published, against a server process.

It runs with the published driver, and once more with `adbc_go/rebinding_test.go`, which does what two functions of that
driver leave undone: what fails with the first alone is the driver's. `adbc_go/validation.txt` lists every test; what it does not pass
names the assertions that fail by their lines, and each of those has its cause in `CAUSES`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pytest

from tests.conformance import go
from tests.conformance.transcripts import said_in
from tests.service.server_process import serving

PATIENCE = 120.0
pytestmark = pytest.mark.full  # Python's driver is the one in Go, and the other tests ask it

EXPECTED = said_in((go.MODULE / "validation.txt").read_text())
DRIVER = "github.com/apache/arrow-adbc/go/adbc/driver/flightsql"
SUITE = "github.com/apache/arrow-adbc/go/adbc/validation"
ADBC = "github.com/apache/arrow-adbc/go/adbc"

_RUN = re.compile(r"=== (?:RUN|NAME) +(?P<name>\S+)")
_RESULT = re.compile(r" *--- (?P<result>PASS|FAIL|SKIP): (?P<name>\S+)")
_FAILURE = re.compile(r"\s+(?:Error Trace:.*/validation\.go:(?P<line>\d+)|\S+: (?P<leak>invalid memory size).*)")
LEAK, PARTS = "leak", "parts"
"""What fails beside assertions: the driver's memory is not freed, or one of the tests within a test fails."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why assertions of the suite fail, and the function whose source shows it."""

    assertions: frozenset[str]
    package: str
    function: str
    shows: str
    """A line of that function."""
    lacks: str
    """What it would have to contain; nothing where it is the line that is wrong."""
    why: str


CAUSES: Sequence[Cause] = (
    Cause(
        frozenset({"939", "1010", "1084", "1149"}),
        DRIVER,
        "func (s *statement) SetSqlQuery(",
        's.targetTable = ""',
        "s.bound",
        "It forgets the table of an ingest, and keeps what was bound; ExecuteQuery then refuses the query unsent.",
    ),
    Cause(
        frozenset({LEAK}),
        DRIVER,
        "func (s *statement) executeIngest(",
        "rdr, err = createRecordReaderFromBatch(s.bound)",
        "rdr.Release()",
        "The reader that it makes of the batch retains it, and is never released.",
    ),
    Cause(
        frozenset({"1214"}),
        DRIVER,
        "func adbcFromFlightStatusWithDetails(",
        "return adbc.Error{",
        "SqlState",
        "No error of this driver has a SQLSTATE, whatever the server sends; the suite expects 42S02.",
    ),
    Cause(
        frozenset({"1247"}),
        SUITE,
        "func (s *StatementTests) TestSqlIngestErrors(",
        "s.Equal(adbc.StatusInternal, e.Code)",
        "StatusAlreadyExists",
        "A table that is there already is an internal error to it alone: ADBC has StatusAlreadyExists.",
    ),
)
ERRORS = "TestRebinding/TestSqlIngestErrors"


@pytest.fixture(scope="module")
def said(adbc_validation: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What came of each test: `= PASS`, or `! ` and the lines of the assertions that failed."""
    with serving(tmp_path_factory.mktemp("validation") / "root") as server:
        environment = {
            "LANCE_FLIGHT_URI": server.uri,
            "LANCE_FLIGHT_VERSION": version("lance-flight"),
            "LANCE_FLIGHT_ARROW_VERSION": pa.__version__,
        }
        ran = subprocess.run(
            [adbc_validation, "-test.v"],
            check=False,
            timeout=PATIENCE,
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
        )
    return dict(results(ran.stdout.splitlines()))


def results(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The tests that a Go program with `-test.v` tells of, but those that only hold others."""
    failures: defaultdict[str, list[str]] = defaultdict(list)
    running = ""
    for line in lines:
        if found := _RUN.fullmatch(line):
            running = found["name"]
        elif found := _FAILURE.fullmatch(line):
            failures[running].append(found["line"] or LEAK)
        elif (found := _RESULT.match(line)) and "/" in found["name"]:
            name = found["name"]
            yield (
                name,
                f"= {found['result']}" if found["result"] != "FAIL" else f"! {', '.join(failures[name]) or PARTS}",
            )


@pytest.mark.parametrize("name", EXPECTED)
def test_validation(said: Mapping[str, str], name: str) -> None:
    assert said[name] == EXPECTED[name]


def test_every_test_is_expected(said: Mapping[str, str]) -> None:
    assert list(said) == list(EXPECTED)


def test_every_failure_has_its_cause() -> None:
    failed = {line for value in EXPECTED.values() if value.startswith("! ") for line in value[2:].split(", ")}
    assert failed - {PARTS} == frozenset().union(*(cause.assertions for cause in CAUSES))


def test_what_the_driver_causes_passes_without_it() -> None:
    """But for the statuses and the SQLSTATE of errors, everything passes with the driver that rebinds."""
    failed = {name for name, value in EXPECTED.items() if value.startswith("! ") and name.startswith("TestRebinding/")}
    assert {name for name in failed if not name.startswith(ERRORS)} == set()


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.function.split()[-1].rstrip("("))
def test_the_source_shows_the_cause(cause: Cause, adbc_validation: Path) -> None:
    body = function(go.source(cause.package), cause.function)
    assert cause.shows in body
    assert cause.lacks not in body


def test_adbc_has_a_status_for_tables_that_are_there(adbc_validation: Path) -> None:
    assert "StatusAlreadyExists" in (go.source(ADBC) / "adbc.go").read_text()


def function(directory: Path, begins: str) -> str:
    """The text of a function in Go."""
    (text,) = (text for path in directory.glob("*.go") if begins in (text := path.read_text()))
    return text[text.index(begins) :].partition("\n}\n")[0]
