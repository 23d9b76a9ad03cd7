"""The registry of statements: one new statement is one new file and its entry, and everything else follows from that."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from inspect import isabstract
from pathlib import Path

import pytest
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.statements.kinds import (
    ChangeStatement,
    MaintenanceStatement,
    RowsStatement,
    SessionStatement,
    Statement,
    TableStatement,
)
from lance_flight.engine.statements.parsing import parse
from lance_flight.engine.statements.registry import STATEMENTS

from tests.engine.statement_needs import NEEDS

TOP = Path(__file__).parents[2]
SERVER = TOP / "server"
STATEMENTS_PACKAGE = SERVER / "lance_flight" / "engine" / "statements"
KINDS = (RowsStatement, ChangeStatement, MaintenanceStatement, SessionStatement)

NAMING = {
    "lance_flight.engine.statements.explain": {"Query"},  # EXPLAIN is about a query, or about a change of rows
}
"""Module → the statements of other modules that it may name, the registry aside, with the reason."""

ANALYZE_TABLE = '''
"""ANALYZE TABLE."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_flight.catalog.bulk.pieces import Progress
from lance_flight.catalog.namespace import PartitionedNamespace
from lance_flight.engine.query.policies.access import Privilege
from lance_flight.engine.sql import references
from lance_flight.engine.sql.cursor import Cursor
from lance_flight.engine.sql.references import TableRef
from lance_flight.engine.statements.kinds import MaintenanceStatement, MaintenanceWork

SCHEMA = pa.schema([pa.field("tables", pa.int64())])


@dataclass(frozen=True, slots=True)
class AnalyzeTable(MaintenanceStatement):
    """ANALYZE TABLE t."""

    forms = ("ANALYZE TABLE",)
    needs = (Privilege.ADMIN,)

    table: TableRef

    @classmethod
    def read(cls, cursor: Cursor) -> AnalyzeTable:
        return cls(references.table(cursor))

    def work(self, namespace: PartitionedNamespace, progress: Progress | None) -> MaintenanceWork:
        return MaintenanceWork(SCHEMA, lambda: pa.table([[namespace.snapshot().table_count]], schema=SCHEMA))
'''

USE_IT = """
import json
import sys

from lance_flight.catalog.roots.directory import Root
from lance_flight.catalog.storage.store import Store
from lance_flight.engine.engine import Engine
from lance_flight.engine.query.policies.access import Access, Grant, Privilege, GrantedTables
from lance_flight.engine.query.scope import Scope
from lance_flight.errors import LanceFlightError

engine = Engine(Root(Store(sys.argv[1])), target_partitions=1)
engine.update("CREATE TABLE t (n BIGINT) PARTITIONED BY (n)")
engine.update("INSERT INTO t VALUES (1), (2), (3)")
readers = Access("reader", (Grant(privileges=frozenset({Privilege.SELECT}), tables=GrantedTables()),))


def told(sql, scope):
    try:
        planned = engine.execute(sql, scope=scope)
        return planned if isinstance(planned, int) else engine.run(planned.tasks[0]).read_all().to_pylist()
    except LanceFlightError as error:
        return f"{type(error).__name__}: {error}"


everyone = Scope()
print(json.dumps({
    "run": told("analyze table t", everyone),
    "described": engine.describe("ANALYZE TABLE t").schema.names,
    "as a reader": told("ANALYZE TABLE t", Scope(access=readers)),
    "wrong": told("ANALYZE TABLE t now", everyone),
    "a habit still": told("ANALYZE t", everyone),
    "listed": told("SELEC 1", everyone),
    "explained": told("EXPLAIN VERBOSE ANALYZE TABLE t", everyone),
}))
"""


def test_a_new_statement_is_one_file_and_one_entry(tmp_path: Path) -> None:
    sources = shutil.copytree(SERVER / "lance_flight", tmp_path / "lance_flight", ignore=lambda *_: {"__pycache__"})
    (sources / "engine" / "statements" / "analyze_table.py").write_text(ANALYZE_TABLE)
    registry = sources / "engine" / "statements" / "registry.py"
    before, entries = registry.read_text().split("STATEMENTS: ")
    before += "from lance_flight.engine.statements.analyze_table import AnalyzeTable\n\n"
    registry.write_text(f"{before}STATEMENTS: {entries.rstrip().removesuffix(')')}    AnalyzeTable,\n)\n")

    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", USE_IT, str(tmp_path / "root")]
    (tmp_path / "root").mkdir()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "run": [{"tables": 3}],
        "described": ["tables"],
        "as a reader": "Refused: 'reader' has no ADMIN on table 't'; a role in the policy file grants it",
        "wrong": "SqlError: expected the end of the statement, got 'now' at character 17",
        "a habit still": "SqlError: 'ANALYZE t' begins no statement here: write ALTER TABLE t COMPACT",
        "listed": told_of_selec(*words(), "ANALYZE"),
        "explained": "SqlError: EXPLAIN takes a query, an UPDATE, a DELETE or a MERGE, got AnalyzeTable",
    }


def words() -> list[str]:
    """The first words of all statements, each once."""
    return list(dict.fromkeys(form.split()[0] for statement in STATEMENTS for form in statement.forms))


def told_of_selec(*expected: str) -> str:
    listed = ", ".join(word for word in expected if word != "(")
    return f"SqlError: a statement may not begin with 'SELEC'; expected one of {listed}"


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_is_complete(statement: type[Statement]) -> None:
    assert not isabstract(statement)
    assert is_dataclass(statement)
    assert statement.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert [issubclass(statement, kind) for kind in KINDS].count(True) == 1
    assert statement.__doc__
    assert not issubclass(statement, TableStatement) or set(statement.needs) <= set(Privilege)
    assert "forms" in vars(statement)
    assert isinstance(vars(statement)["read"], classmethod)
    examples = [sql for sql in NEEDS if any(begins(sql, form) for form in statement.forms)]
    assert {type(parse(sql)) for sql in examples} & {statement, *statement.__bases__}, f"no example: {statement.forms}"


def begins(sql: str, form: str) -> bool:
    return sql.startswith(form) if " t " not in form else form.split(" t ")[1] in sql


def test_every_statement_is_registered_once() -> None:
    assert sorted(map(str, STATEMENTS)) == sorted(map(str, written()))
    forms = [form for statement in STATEMENTS for form in statement.forms]
    assert len(forms) == len(set(forms))


def written() -> Iterator[type[Statement]]:
    """The classes of statements that the package has, but for those that others are made of."""
    for file in {*STATEMENTS_PACKAGE.rglob("*.py")} - {STATEMENTS_PACKAGE / "kinds.py"}:
        module = import_module(".".join(file.relative_to(SERVER).with_suffix("").parts).removesuffix(".__init__"))
        for each in vars(module).values():
            is_statement = isinstance(each, type) and issubclass(each, Statement) and not isabstract(each)
            if is_statement and each.__module__ == module.__name__:
                yield each


def test_no_other_module_names_a_statement() -> None:
    home = {statement.__name__: statement.__module__ for statement in STATEMENTS}
    found: dict[str, set[str]] = {}
    for file in (SERVER / "lance_flight").rglob("*.py"):
        module = ".".join(file.relative_to(SERVER).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and module != "lance_flight.engine.statements.registry":
                named = {each.name for each in node.names if home.get(each.name) == node.module}
                if named:
                    found.setdefault(module, set()).update(named)
    assert found == NAMING


def test_the_page_about_sql_has_every_statement() -> None:
    text = " ".join((TOP / "server" / "docs" / "sql.md").read_text().split())
    for statement in STATEMENTS:
        form = re.escape(statement.forms[0].split(" t ")[-1])
        assert re.search(rf"[`… ]{form}[` ]" if form[0].isalpha() else form, text), statement.forms
