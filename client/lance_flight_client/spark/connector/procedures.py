"""Procedures of a catalog, `CALL lake.system.compact('t')`: statements of the service with their parts as parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from lance_flight.errors import InvalidInput, NotFound, Unsupported
from lance_flight.model.operations import OPERATIONS, Name

from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.connector.backends import SqlRunner
from lance_flight_client.spark.connector.foreign_words import (
    COPIES,
    FOREIGN,
    NO_PROCEDURES,
    changelog_view,
    copy_statement,
    run_words,
)
from lance_flight_client.spark.connector.relations import text
from lance_flight_client.spark.options import OptionReading


def _table(given: str) -> str:
    """Return a table's name as SQL quotes it.

    >>> _table("s.t"), _table("t")
    ('"s"."t"', '"public"."t"')
    """
    reading = OptionReading({"table": given})
    found = reading.table("table")
    if found is None:
        raise InvalidInput("; ".join(reading.problems))
    return f"{quote_name(found.db_schema)}.{quote_name(found.name)}"


def _point(given: str) -> str:
    """Return a version, or the name of a tag."""
    return given if given.isdecimal() else quote_name(given)


def _number(given: str) -> str:
    if not given.isdecimal():
        raise InvalidInput(f"{given!r} is no number of hours; expected 0 or more")
    return given


def _switch(given: str) -> str | None:
    if given.lower() not in {"true", "false"}:
        raise InvalidInput(f"{given!r} is not true or false")
    return "" if given.lower() == "true" else None


_KINDS: Mapping[object, Callable[[str], str | None]] = MappingProxyType(
    {float: _number, int: _number, bool: _switch, str: str, Name: quote_name}
)
_READ: Mapping[str, Callable[[str], str | None]] = MappingProxyType(
    {
        "table": _table,
        "view": _table,
        "query": str,
        "tag": quote_name,
        "branch": quote_name,
        "version": _point,
        **{
            argument.name: _KINDS[argument.kind]
            for operation in OPERATIONS.values()
            for argument in operation.arguments
            if argument.clause
        },
    }
)
"""Parameters by name: how each is said in a statement; None where it is left out."""


@dataclass(frozen=True, slots=True)
class Procedure:
    """A statement: its beginning, of required parameters, and a clause for each optional one."""

    description: str
    statement: str
    required: tuple[str, ...] = ("table",)
    optional: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    reports: bool = True

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of its parameters."""
        return (*self.required, *self.optional)

    def sql(self, values: Sequence[str | None]) -> str:
        """Return the statement for the values of the parameters; `InvalidInput` for a value that it cannot have.

        >>> PROCEDURES["vacuum"].sql(["t", "200", None, "12", None])
        'VACUUM "public"."t" RETAIN 200 HOURS TRANSACTIONS 12 HOURS'
        """
        given = dict(zip(self.parameters, values, strict=True))
        missing = [name for name in self.required if given[name] is None]
        if missing:
            raise InvalidInput(f"parameter {missing[0]!r} is NULL; expected a value")
        said = {name: None if value is None else _READ[name](value) for name, value in given.items()}
        clauses = [clause.format(said[name]) for name, clause in self.optional.items() if said[name] is not None]
        return " ".join([self.statement.format(**said), *clauses])


PROCEDURES: Mapping[str, Procedure] = MappingProxyType(
    {
        **{
            operation.procedure: Procedure(
                operation.summary.capitalize(), operation.statement, optional=MappingProxyType(operation.clauses)
            )
            for operation in OPERATIONS.values()
            if operation.procedure
        },
        "rollback": Procedure(
            "Make a new version that equals an old one",
            "ALTER TABLE {table} ROLLBACK TO {version}",
            ("table", "version"),
            reports=False,
        ),
        "create_tag": Procedure(
            "Name a version",
            "ALTER TABLE {table} CREATE TAG {tag}",
            ("table", "tag"),
            MappingProxyType({"version": "AS OF {}"}),
            reports=False,
        ),
        "drop_tag": Procedure("Remove a tag", "ALTER TABLE {table} DROP TAG {tag}", ("table", "tag"), reports=False),
        "create_branch": Procedure(
            "Make a branch",
            "ALTER TABLE {table} CREATE BRANCH {branch}",
            ("table", "branch"),
            MappingProxyType({"version": "AS OF {}"}),
            reports=False,
        ),
        "publish_branch": Procedure(
            "Make a branch the table", "ALTER TABLE {table} PUBLISH BRANCH {branch}", ("table", "branch"), reports=False
        ),
        "drop_branch": Procedure(
            "Drop a branch", "ALTER TABLE {table} DROP BRANCH {branch}", ("table", "branch"), reports=False
        ),
        "create_view": Procedure(
            "Make a view of a query in the service's SQL",
            "CREATE VIEW {view} AS {query}",
            ("view", "query"),
            reports=False,
        ),
        "replace_view": Procedure(
            "Make a view, in place of the one of that name",
            "CREATE OR REPLACE VIEW {view} AS {query}",
            ("view", "query"),
            reports=False,
        ),
        "drop_view": Procedure("Drop a view", "DROP VIEW {view}", ("view",), reports=False),
    }
)


STATEMENT = "statement"
"""Procedure that runs the statements which the parser of the catalog's extension knows; it is not listed."""


CHANGELOG = "create_changelog_view"
"""Procedure that makes a temporary view of Spark's, which the JVM does."""


def parameters(name: str) -> list[tuple[str, str, bool]]:
    """Return the parameters of a procedure, each with its type and whether it is required; `NotFound` lists those that there are."""
    if name == STATEMENT:
        return [("table", "string", True), ("words", "string", True)]
    if name == CHANGELOG:
        return [
            ("table", "string", True),
            ("changelog_view", "string", False),
            ("options", "map<string, string>", False),
        ]
    if name in COPIES:
        # In the order of Iceberg's.
        names = ("source_table", "table") if name == "snapshot" else ("table", "source_table")
        return [(each, "string", True) for each in names]
    if name in FOREIGN:
        procedure = FOREIGN[name]
        return [(each, kind, each in procedure.required) for each, kind in procedure.types.items()]
    if name in NO_PROCEDURES:
        raise Unsupported(f"there is no procedure {name!r} here; expected {NO_PROCEDURES[name]}")
    if name not in PROCEDURES:
        raise NotFound(f"no procedure {name!r}; expected system.{', '.join(sorted([*PROCEDURES, *FOREIGN]))}")
    return [(each, "string", each in PROCEDURES[name].required) for each in PROCEDURES[name].parameters]


def description(name: str) -> str:
    """Return what a procedure does."""
    known = FOREIGN.get(name) or PROCEDURES.get(name)
    return "Run a statement" if known is None else known.description


def call(asked: SqlRunner, name: str, values: Sequence[str | None], catalog: str | None = None) -> dict[str, Any]:
    """Run a procedure of a catalog; return its report as texts, with their columns."""
    given = dict(zip((each for each, _, _ in parameters(name)), values, strict=True))
    for place in ("table", "view"):
        given[place] = _without_catalog(asked, given.get(place), catalog)
    if name == STATEMENT:
        table = OptionReading({"table": given["table"] or ""}).table("table")
        found = None if table is None else run_words(asked, table, given["words"] or "")
        return {"columns": ["statement"], "rows": []} if found is None else _run(asked, *found)
    if name == CHANGELOG or name in COPIES:
        reading = OptionReading({"table": given["table"] or ""}).table("table")
        if reading is None:
            raise InvalidInput(f"table {given['table']!r}; expected a table, or a schema and a table")
        if name in COPIES:
            run = copy_statement(name, catalog or "", reading, given["source_table"] or "")
            return {"columns": ["statement"], "rows": [[run]], "run": run}
        view, changes = changelog_view(given["table"] or "", given)
        return {"columns": ["changelog_view"], "rows": [[view]], "view": view, "of": [*reading, changes]}
    if name in FOREIGN:
        procedure = FOREIGN[name]
        missing = [each for each in procedure.required if given[each] is None]
        if missing:
            raise InvalidInput(f"parameter {missing[0]!r} is NULL; expected a value")
        return _run(asked, procedure.statement(asked, _table(given["table"] or ""), given), procedure.reports)
    own = PROCEDURES[name]
    return _run(asked, own.sql([given[each] for each in own.parameters]), own.reports)


def _without_catalog(asked: SqlRunner, name: str | None, catalog: str | None) -> str | None:
    """Return a table's name without that of its catalog, unless a schema has it too and nothing else names a schema."""
    first, _, rest = (name or "").partition(".")
    if catalog is None or not rest or first.lower() != catalog.lower():
        return name
    sql = f"SELECT 1 FROM information_schema.schemata WHERE schema_name = {text(first)}"  # noqa: S608 - quoted
    return name if "." not in rest and asked.rows(sql).num_rows else rest


def _run(asked: SqlRunner, statement: str, reports: bool) -> dict[str, Any]:  # noqa: FBT001 - a pair with the statement
    if reports:
        return _texts(asked.rows(statement))
    asked.run(statement)
    return {"columns": ["statement"], "rows": [[statement]]}


def _texts(rows: pa.Table) -> dict[str, Any]:
    found = [[None if value is None else str(value) for value in row.values()] for row in rows.to_pylist()]
    return {"columns": rows.column_names, "rows": found}
