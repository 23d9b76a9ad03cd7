"""Names of tables and views in SQL."""

from __future__ import annotations

from dataclasses import dataclass

PUBLIC = "public"
"""The schema of what lies right below a root."""


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table of a root: the SQL schema it is in and its name."""

    db_schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.db_schema}.{self.name}"
