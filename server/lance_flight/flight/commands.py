"""What a client can ask for: one closed union of commands and one of actions.

Each class has the fields of its protobuf message under the same names; an absent `optional` field is None, a repeated
one a tuple, a map a tuple of pairs in key order. `lance_flight.flight.wire` turns bytes into these and back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

SessionValue: TypeAlias = str | bool | int | float | tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetSqlInfo:
    """What the server is and can do; no codes at all ask for everything."""

    info: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetXdbcTypeInfo:
    """The SQL types, or the one with this number of JDBC and ODBC."""

    data_type: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetCatalogs:
    """All catalogs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetDbSchemas:
    """The schemas of one catalog, or of all."""

    catalog: str | None = None
    db_schema_filter_pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTables:
    """Tables, with their Arrow schemas if `include_schema`; no `table_types` are all types."""

    catalog: str | None = None
    db_schema_filter_pattern: str | None = None
    table_name_filter_pattern: str | None = None
    table_types: tuple[str, ...] = ()
    include_schema: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTableTypes:
    """The types of table that GetTables can filter by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetPrimaryKeys:
    """The primary key of a table."""

    catalog: str | None = None
    db_schema: str | None = None
    table: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetExportedKeys:
    """The foreign keys that refer to a table."""

    catalog: str | None = None
    db_schema: str | None = None
    table: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetImportedKeys:
    """The foreign keys of a table."""

    catalog: str | None = None
    db_schema: str | None = None
    table: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetCrossReference:
    """The foreign keys of one table that refer to another one."""

    pk_catalog: str | None = None
    pk_db_schema: str | None = None
    pk_table: str = ""
    fk_catalog: str | None = None
    fk_db_schema: str | None = None
    fk_table: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementQuery:
    """SQL text, for its rows."""

    query: str
    transaction_id: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementUpdate:
    """SQL text, for the number of rows that it affects."""

    query: str
    transaction_id: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubstraitPlan:
    """A serialized substrait.Plan, and the version of Substrait that it was made for."""

    plan: bytes
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementSubstraitPlan:
    """A Substrait plan, for its rows."""

    plan: SubstraitPlan | None = None
    transaction_id: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinitionOptions:
    """What an ingest does with a table that is missing or there: two open enums of the protocol."""

    if_not_exist: int = 0
    if_exists: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementIngest:
    """Rows to be stored in a table."""

    table: str
    table_definition_options: TableDefinitionOptions | None = None
    schema: str | None = None
    catalog: str | None = None
    temporary: bool = False
    transaction_id: bytes | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStatementQuery:
    """A prepared statement, for its rows (DoPut: to bind its parameters)."""

    prepared_statement_handle: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStatementUpdate:
    """A prepared statement, for the number of rows that it affects."""

    prepared_statement_handle: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketStatementQuery:
    """The ticket of one endpoint of a result."""

    statement_handle: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePreparedStatement:
    """Plan SQL text for later."""

    query: str
    transaction_id: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePreparedSubstraitPlan:
    """Keep a Substrait plan for later."""

    plan: SubstraitPlan | None = None
    transaction_id: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosePreparedStatement:
    """Forget a prepared statement."""

    prepared_statement_handle: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransaction:
    """Open a transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """Commit a transaction (`action` 1) or roll it back (2)."""

    transaction_id: bytes
    action: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginSavepoint:
    """Mark a place inside a transaction."""

    transaction_id: bytes
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSavepoint:
    """Release a savepoint (`action` 1) or go back to it (2)."""

    savepoint_id: bytes
    action: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelQuery:
    """Stop the query of a serialized FlightInfo (the older of two actions)."""

    info: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelFlightInfo:
    """Stop the query of a serialized FlightInfo."""

    info: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewFlightEndpoint:
    """Keep the ticket of a serialized FlightEndpoint good for longer."""

    endpoint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSessionOptions:
    """Set options of the session; None unsets one."""

    session_options: tuple[tuple[str, SessionValue], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GetSessionOptions:
    """All options of the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSession:
    """End the session."""


MetadataCommand: TypeAlias = (
    GetSqlInfo
    | GetXdbcTypeInfo
    | GetCatalogs
    | GetDbSchemas
    | GetTables
    | GetTableTypes
    | GetPrimaryKeys
    | GetExportedKeys
    | GetImportedKeys
    | GetCrossReference
)
Command: TypeAlias = (
    MetadataCommand
    | StatementQuery
    | StatementUpdate
    | StatementSubstraitPlan
    | StatementIngest
    | PreparedStatementQuery
    | PreparedStatementUpdate
    | TicketStatementQuery
)
Action: TypeAlias = (
    CreatePreparedStatement
    | CreatePreparedSubstraitPlan
    | ClosePreparedStatement
    | BeginTransaction
    | EndTransaction
    | BeginSavepoint
    | EndSavepoint
    | CancelQuery
    | CancelFlightInfo
    | RenewFlightEndpoint
    | SetSessionOptions
    | GetSessionOptions
    | CloseSession
)
