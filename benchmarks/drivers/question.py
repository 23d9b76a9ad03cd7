"""A question in the parts that a peer may need one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

TABLE = "lineitem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query of the line items; of no table at all where it reads no columns.

    `months` says `where` again about the columns `y` and `m`, for peers that know no transforms and whose users name those.
    """

    select: str
    columns: tuple[str, ...] = ()
    where: str = ""
    months: str = ""
    group: str = ""
    is_whole: bool = False

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """From JSON."""
        return cls(**{**fields, "columns": tuple(fields["columns"])})

    def sql(self, *, by_months: bool = False) -> str:
        """The text of the query."""
        conditions = [self.where, self.months] if by_months else [self.where]
        where = " AND ".join(condition for condition in conditions if condition)
        return " ".join(
            [
                f"SELECT {self.select}",
                *([f"FROM {TABLE}"] if self.columns else []),
                *([f"WHERE {where}"] if where else []),
                *([f"GROUP BY {self.group}"] if self.group else []),
            ]
        )
