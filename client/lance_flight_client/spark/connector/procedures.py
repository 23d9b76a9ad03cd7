"""Procedures of a catalog, `CALL lake.system.compact('t')`: statements of the service with their parts as parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from lance_flight.errors import InvalidInput, NotFound
from lance_flight.model.operations import OPERATIONS, Name

from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.connector.backends import SqlRunner
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
    {float: _number, bool: _switch, str: str, Name: quote_name}
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


def call(asked: SqlRunner, name: str, values: Sequence[str | None]) -> dict[str, Any]:
    """Run a procedure; return its report as texts, with their columns."""
    procedure = PROCEDURES.get(name)
    if procedure is None:
        raise NotFound.named("procedure", name, PROCEDURES)
    statement = procedure.sql(values)
    if procedure.reports:
        return _texts(asked.rows(statement))
    asked.run(statement)
    return {"columns": ["statement"], "rows": [[statement]]}


def _texts(rows: pa.Table) -> dict[str, Any]:
    found = [[None if value is None else str(value) for value in row.values()] for row in rows.to_pylist()]
    return {"columns": rows.column_names, "rows": found}
