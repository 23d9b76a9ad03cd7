"""The registry of statements, and every statement of our own read from its words, with the privileges that it needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from importlib import import_module
from inspect import getattr_static, isabstract
from pathlib import Path

import pytest
from lance_flight.catalog.roots.directory import TableName
from lance_flight.engine.operations import DOING
from lance_flight.engine.query.access import Privilege
from lance_flight.engine.statements.kinds import (
    ChangeStatement,
    MaintenanceStatement,
    RowsStatement,
    SessionStatement,
    Statement,
    TableStatement,
    check_privileges,
)
from lance_flight.engine.statements.maintenance import OperationStatement
from lance_flight.engine.statements.parsing import STATEMENTS, parse
from lance_flight.errors import SqlError
from lance_flight.model.operations import OPERATIONS

from tests.engine.statement_needs import NEEDS

TOP = Path(__file__).parents[2]
SERVER = TOP / "server"
STATEMENTS_PACKAGE = SERVER / "lance_flight" / "engine" / "statements"
VALUES = {"WHERE": "p = 'a'", "INDEX": "i"}
"""Values of clauses that take no number."""
KINDS = (RowsStatement, ChangeStatement, MaintenanceStatement, SessionStatement)

NAMING = {
    "lance_flight.engine.statements.create_table": {"ShowCreateTable"},  # a table LIKE another one has its definition
}
"""Module → the statements of other modules that it may name, the registry aside, with the reason."""


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_is_complete(statement: type[Statement]) -> None:
    assert not isabstract(statement)
    assert is_dataclass(statement)
    assert statement.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert [issubclass(statement, kind) for kind in KINDS].count(True) == 1
    assert statement.__doc__
    assert not issubclass(statement, TableStatement) or set(statement.needs) <= set(Privilege)
    assert "forms" in vars(statement)
    assert isinstance(getattr_static(statement, "read"), classmethod)
    examples = [sql for sql in NEEDS if any(begins(sql, form) for form in statement.forms)]
    assert {type(parse(sql)) for sql in examples} & {statement, *statement.__bases__}, f"no example: {statement.forms}"


@pytest.mark.parametrize("name", [name for name, operation in OPERATIONS.items() if operation.statement])
def test_the_statement_of_an_operation_takes_all_of_its_clauses(name: str) -> None:
    operation = OPERATIONS[name]
    clauses = [clause.format(VALUES.get(clause.split()[0], 300)) for clause in operation.clauses.values()]
    statement = parse(" ".join([operation.statement.format(table="t"), *clauses]))
    assert isinstance(statement, MaintenanceStatement)
    assert getattr(statement, "given", {}).keys() == operation.clauses.keys()


def test_every_operation_is_done_by_one_function() -> None:
    assert OPERATIONS.keys() == DOING.keys()
    for name, operation in OPERATIONS.items():
        taken = {each.name for each in fields(DOING[name].rules)}
        assert {each.name for each in operation.arguments} <= taken, name


def begins(sql: str, form: str) -> bool:
    return sql.startswith(form) if " t " not in form else form.split(" t ")[1] in sql


def test_every_statement_is_registered_once() -> None:
    assert sorted(map(str, STATEMENTS)) == sorted(map(str, written()))
    forms = [form for statement in STATEMENTS for form in statement.forms]
    assert len(forms) == len(set(forms))


def written() -> Iterator[type[Statement]]:
    """The classes of statements that the package has, but for those that others are made of, or that another one reads."""
    for file in {*STATEMENTS_PACKAGE.rglob("*.py")} - {STATEMENTS_PACKAGE / "kinds.py"}:
        module = import_module(".".join(file.relative_to(SERVER).with_suffix("").parts).removesuffix(".__init__"))
        for each in vars(module).values():
            is_statement = isinstance(each, type) and issubclass(each, Statement) and not isabstract(each)
            if each is OperationStatement:
                yield from each.__subclasses__()
                continue
            if is_statement and each.__module__ == module.__name__ and each.forms:
                yield each


def test_no_other_module_names_a_statement() -> None:
    home = {statement.__name__: statement.__module__ for statement in STATEMENTS}
    homes = set(home.values())
    found: dict[str, set[str]] = {}
    for file in (SERVER / "lance_flight").rglob("*.py"):
        module, text = ".".join(file.relative_to(SERVER).with_suffix("").parts), file.read_text()
        # Few modules import one of those at all, and to parse them all takes seconds.
        for node in ast.walk(ast.parse(text if any(f"from {each} import" in text for each in homes) else "")):
            if isinstance(node, ast.ImportFrom) and module != "lance_flight.engine.statements.parsing":
                named = {each.name for each in node.names if home.get(each.name) == node.module}
                if named:
                    found.setdefault(module, set()).update(named)
    assert found == NAMING


def test_the_page_about_sql_has_every_statement() -> None:
    text = " ".join((TOP / "server" / "docs" / "sql.md").read_text().split())
    for statement in STATEMENTS:
        form = re.escape(statement.forms[0].split(" t ")[-1])
        assert re.search(rf"[`… ]{form}[` ]" if form[0].isalpha() else form, text), statement.forms


WORDS = (
    "SELECT, WITH, VALUES, FROM, PIVOT, UNPIVOT, SUBSTRAIT, EXPLAIN, SHOW, SUMMARIZE, DESCRIBE, DESC, CREATE, DROP, INSERT, SET, USE, RESET, KILL, BEGIN,"
    " START, COMMIT, ROLLBACK, END, ABORT, ALTER, COMMENT, UPDATE, DELETE, MERGE, TRUNCATE, REINDEX, VACUUM, VERIFY, REPAIR, MIGRATE"
)
ALTERATIONS = (
    "ADD COLUMN, DROP COLUMN, RENAME COLUMN, ALTER COLUMN, ADD PRIMARY KEY, ADD CONSTRAINT,"
    " DROP PRIMARY KEY, SET METADATA, RENAME TO, ADD PARTITION FIELD, DROP PARTITION FIELD, REPLACE PARTITION FIELD, SET PARTITIONED BY, SET, DROP PARTITION, ATTACH TABLE, DETACH PARTITION, CREATE TAG, DROP TAG, REPLACE TAG, CREATE OR REPLACE TAG, ROLLBACK TO, CREATE BRANCH, REPLACE BRANCH, CREATE OR REPLACE BRANCH, DROP BRANCH, PUBLISH BRANCH,"
    " COMPACT or REWRITE PARTITIONS"
)
SHOWN = "CATALOGS, SCHEMAS, TABLES, VIEWS, FUNCTIONS, COLUMNS, CREATE TABLE, CREATE VIEW, PARTITIONS, INDEXES, ALL or the name of a setting"

REFUSED = {
    "SELEC 1": f"a statement may not begin with 'SELEC'; expected one of {WORDS}",
    "SHOW t": f"expected {SHOWN}, got 't' at character 6",
    "SHOW": f"expected {SHOWN}, got the end of the statement",
    "CREATE x": "expected TABLE, got 'x' at character 8",
    "DROP x": "expected TABLE, got 'x' at character 6",
    "ALTER x": "expected TABLE, got 'x' at character 7",
    "ALTER TABLE": "expected a table name, got the end of the statement",
    "ALTER TABLE t": f"expected {ALTERATIONS}, got the end of the statement",
    "ALTER TABLE t MOVE x": f"expected {ALTERATIONS}, got 'MOVE' at character 15",
    "ALTER TABLE t COMPACT now": "expected OVER n FILES, DELETED n PERCENT or WHERE n, got 'now' at character 23",
    "ALTER TABLE t DROP TAG a b": "expected the end of the statement, got 'b' at character 26",
    "ALTER TABLE t ALTER COLUMN x y": (
        "expected TYPE, SET DATA TYPE, SET NOT NULL, DROP NOT NULL, SET DEFAULT, DROP DEFAULT, FIRST, AFTER or COMMENT, got 'y' at character 30"
    ),
    "EXPLAIN DROP TABLE t": "EXPLAIN takes a query, an UPDATE, a DELETE or a MERGE, got DropTable",
    "EXPLAIN INSERT INTO t VALUES (1)": "EXPLAIN takes a query, an UPDATE, a DELETE or a MERGE, got Insert; write EXPLAIN with the query alone",
    "EXPLAIN TRUNCATE t": "EXPLAIN takes a query, an UPDATE, a DELETE or a MERGE, got Truncate",
    "EXPLAIN ANALYZE DELETE FROM t": "EXPLAIN ANALYZE takes a query, got Delete",
    "EXPLAIN DROP x": "expected TABLE, got 'x' at character 14",
    "SUBSTRAIT x": "expected a plan in base64, in quotes, got 'x' at character 11",
    "USE other.s": "catalog 'other' is not there; expected [lance.]schema",
    "ANALYZE t": "'ANALYZE t' begins no statement here: write ALTER TABLE t COMPACT, or leave it out: a server maintains its tables by itself",
    "SHOW DATABASES": "'SHOW DATABASES' begins no statement here: write SHOW SCHEMAS; the catalog is always lance",
}


@dataclass
class Asking:
    """Notes which privileges are asked for, in place of an access and of a root."""

    asked: list[tuple[Privilege, TableName]] = field(default_factory=list)
    own: frozenset[TableName] = frozenset({TableName("public", "own")})

    def check_all_rows(self, privilege: Privilege, table: TableName) -> None:
        self.asked.append((privilege, table))

    def governing_table(self, name: TableName) -> TableName:
        return name


@pytest.mark.parametrize(("sql", "needs"), NEEDS.items(), ids=NEEDS)
def test_a_statement_needs_its_privileges(sql: str, needs: str) -> None:
    asking = Asking()
    check_privileges(parse(sql), asking, asking)
    shown = [f"{privilege.value} {str(name).removeprefix('public.')}" for privilege, name in asking.asked]
    assert ", ".join(shown) == needs


@pytest.mark.parametrize(("sql", "error"), REFUSED.items(), ids=REFUSED)
def test_what_is_no_statement_is_told_what_is(sql: str, error: str) -> None:
    with pytest.raises(SqlError) as caught:
        parse(sql)
    assert str(caught.value) == error
