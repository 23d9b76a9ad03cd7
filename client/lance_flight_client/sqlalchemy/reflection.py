"""Reflection: what SQLAlchemy's inspector asks, answered from `information_schema` and SHOW INDEXES."""

from __future__ import annotations

from typing import Any, NoReturn

from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.reflection import ReflectionDefaults, cache
from sqlalchemy.exc import NoSuchTableError

from lance_flight_client.sqlalchemy.compiler import reflect_type

_TABLES, _TEMPORARY, _VIEW = "BASE TABLE", "LOCAL TEMPORARY", "VIEW"


class Reflection(DefaultDialect):
    """Methods of a dialect that read the metadata of tables; `schema` is None for the schema of the session."""

    @cache
    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        return list(_rows(connection, "SELECT schema_name FROM information_schema.schemata ORDER BY 1").scalars())

    def has_schema(self, connection: Connection, schema_name: str, **kw: Any) -> bool:
        return schema_name in self.get_schema_names(connection, **kw)

    @cache
    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return self._list_names(connection, schema, _TABLES)

    @cache
    def get_temp_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return self._list_names(connection, schema, _TEMPORARY)

    @cache
    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return self._list_names(connection, schema, _VIEW)

    def get_temp_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        return []

    @cache
    def has_table(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> bool:
        return self._kind(connection, table_name, schema) is not None

    @cache
    def get_view_definition(self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any) -> str:
        asked = (
            "SELECT view_definition FROM information_schema.views WHERE table_schema = :schema AND table_name = :name"
        )
        row = _rows(connection, asked, schema=self._schema(schema), name=view_name).first()
        if row is None:
            _refuse(view_name, schema)
        return str(row[0])

    @cache
    def get_columns(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> list[Any]:
        asked = """
            SELECT column_name, data_type, is_nullable, column_default, column_comment FROM information_schema.columns
            WHERE table_schema = :schema AND table_name = :name ORDER BY ordinal_position
        """
        columns = [
            {
                "name": name,
                "type": reflect_type(kind),
                "nullable": nullable == "YES",
                "default": default,
                "autoincrement": False,
                "comment": comment,
            }
            for name, kind, nullable, default, comment in _rows(
                connection, asked, schema=self._schema(schema), name=table_name
            )
        ]
        return columns or self._nothing(connection, table_name, schema, [])

    @cache
    def get_pk_constraint(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        asked = """
            SELECT constraint_name, column_name FROM information_schema.key_column_usage
            WHERE table_schema = :schema AND table_name = :name ORDER BY ordinal_position
        """
        keys = _rows(connection, asked, schema=self._schema(schema), name=table_name).all()
        if not keys:
            return self._nothing(connection, table_name, schema, ReflectionDefaults.pk_constraint())
        return {"name": keys[0][0], "constrained_columns": [column for _, column in keys]}

    @cache
    def get_foreign_keys(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        return self._nothing(connection, table_name, schema, ReflectionDefaults.foreign_keys())

    @cache
    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return self._nothing(connection, table_name, schema, ReflectionDefaults.unique_constraints())

    @cache
    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return self._nothing(connection, table_name, schema, ReflectionDefaults.check_constraints())

    @cache
    def get_indexes(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        if self._kind(connection, table_name, schema) == _VIEW:
            return []
        self._nothing(connection, table_name, schema, None)
        quote = self.identifier_preparer.quote_identifier
        asked = f"SHOW INDEXES FROM {quote(self._schema(schema))}.{quote(table_name)}"
        result = connection.exec_driver_sql(asked).mappings()
        return [
            {
                "name": index["name"],
                "column_names": [index["column_name"]],
                "unique": False,
                "dialect_options": {"lance_flight_using": index["kind"]},
            }
            for index in result
        ]

    @cache
    def get_table_comment(self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any) -> Any:
        asked = """
            SELECT table_comment FROM information_schema.tables WHERE table_schema = :schema AND table_name = :name
        """
        row = _rows(connection, asked, schema=self._schema(schema), name=table_name).first()
        if row is None:
            _refuse(table_name, schema)
        return {"text": row[0]}

    def _list_names(self, connection: Connection, schema: str | None, kind: str) -> list[str]:
        asked = """
            SELECT table_name FROM information_schema.tables WHERE table_schema = :schema AND table_type = :kind ORDER BY 1
        """
        return list(_rows(connection, asked, schema=self._schema(schema), kind=kind).scalars())

    def _kind(self, connection: Connection, name: str, schema: str | None) -> str | None:
        """Return the type of a table or view; None if there is none."""
        asked = "SELECT table_type FROM information_schema.tables WHERE table_schema = :schema AND table_name = :name"
        kind: str | None = _rows(connection, asked, schema=self._schema(schema), name=name).scalar()
        return kind

    def _nothing(self, connection: Connection, name: str, schema: str | None, answer: Any) -> Any:
        """Return `answer` for a table that is there; raise an error for any other."""
        if self._kind(connection, name, schema) is None:
            _refuse(name, schema)
        return answer

    def _schema(self, schema: str | None) -> str:
        return str(schema or self.default_schema_name)


def _rows(connection: Connection, sql: str, **parameters: str) -> Any:
    return connection.execute(text(sql), parameters)


def _refuse(name: str, schema: str | None) -> NoReturn:
    raise NoSuchTableError(name if schema is None else f"{schema}.{name}")
