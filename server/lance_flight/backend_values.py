"""Values that the dispatch of Flight SQL and the engine exchange, neither of which imports the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

import pyarrow as pa

SettingValue: TypeAlias = str | bool | int | float | tuple[str, ...]
"""Type of the value of a session option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """Description of a planned statement that was not run; `schema` is None if it returns no rows (DDL and DML)."""

    schema: pa.Schema | None
    parameters: pa.Schema = field(default_factory=lambda: pa.schema([]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """State of a session that another server can go on with: the settings that differ from the default ones.

    `generation` grows with each change. `kept` names what only the server that has the session knows of it, in words for an error.
    """

    generation: int = 0
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    kept: tuple[str, ...] = ()


class CancelStatus(Enum):
    """Outcome of a request to cancel a statement: it has ended, it is ending, or it cannot be cancelled any more."""

    CANCELLED = "cancelled"
    CANCELLING = "cancelling"
    NOT_CANCELLABLE = "not cancellable"


class PeerOperation(Enum):
    """Operation that one server asks another for: the rows of a system table, or the end of a statement."""

    ROWS = "rows"
    KILL = "kill"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRequest:
    """A question about a `subject`, the name of a table or the id of a statement, for a principal (None: an administrator).

    A server on another machine passes it on to the other replicas there (`reaches_siblings`), which do not; `machine` is the random name
    of that which asks.
    """

    operation: PeerOperation
    subject: str
    principal: str | None
    machine: str = ""
    reaches_siblings: bool = False


class IfExists(Enum):
    """Action of an ingest whose target table exists."""

    FAIL = "fail"
    APPEND = "append"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlace:
    """Place of a Lance table that other engines may read by themselves, and the version that readers of the service see.

    `object_id` names a partition table inside of its table, as the partitioning spec does; a plain table has none.
    """

    object_id: str
    uri: str
    version: int | None
