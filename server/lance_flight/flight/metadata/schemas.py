"""Result schemas of the metadata commands, as the comments of FlightSql.proto define them, and the LIKE patterns that filter results.

Order, names, types and nullability are those of the proto: servers and clients that are in use differ from it and from
each other. Where all of Arrow's implementations differ from it in the same way, and compare, theirs count: `key_sequence`
comes before `key_name`, and nothing in SqlInfo is nullable.

`%` stands for any run of characters, `_` for one character, and a backslash before `%`, `_` or a backslash takes its
meaning away; any other backslash stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa


def _field(name: str, of: pa.DataType, *, null: bool = True) -> pa.Field:
    return pa.field(name, of, nullable=null)


NO_ROWS = pa.schema([])

CATALOGS = pa.schema([_field("catalog_name", pa.utf8(), null=False)])

DB_SCHEMAS = pa.schema(
    [
        _field("catalog_name", pa.utf8()),
        _field("db_schema_name", pa.utf8(), null=False),
    ]
)

TABLES = pa.schema(
    [
        _field("catalog_name", pa.utf8()),
        _field("db_schema_name", pa.utf8()),
        _field("table_name", pa.utf8(), null=False),
        _field("table_type", pa.utf8(), null=False),
    ]
)

TABLES_WITH_SCHEMA = TABLES.append(_field("table_schema", pa.binary(), null=False))

TABLE_TYPES = pa.schema([_field("table_type", pa.utf8(), null=False)])

PRIMARY_KEYS = pa.schema(
    [
        _field("catalog_name", pa.utf8()),
        _field("db_schema_name", pa.utf8()),
        _field("table_name", pa.utf8(), null=False),
        _field("column_name", pa.utf8(), null=False),
        _field("key_sequence", pa.int32(), null=False),
        _field("key_name", pa.utf8()),
    ]
)

FOREIGN_KEYS = pa.schema(
    [
        _field("pk_catalog_name", pa.utf8()),
        _field("pk_db_schema_name", pa.utf8()),
        _field("pk_table_name", pa.utf8(), null=False),
        _field("pk_column_name", pa.utf8(), null=False),
        _field("fk_catalog_name", pa.utf8()),
        _field("fk_db_schema_name", pa.utf8()),
        _field("fk_table_name", pa.utf8(), null=False),
        _field("fk_column_name", pa.utf8(), null=False),
        _field("key_sequence", pa.int32(), null=False),
        _field("fk_key_name", pa.utf8()),
        _field("pk_key_name", pa.utf8()),
        _field("update_rule", pa.uint8(), null=False),
        _field("delete_rule", pa.uint8(), null=False),
    ]
)

SQL_INFO_VALUE = pa.dense_union(
    [
        _field("string_value", pa.utf8(), null=False),
        _field("bool_value", pa.bool_(), null=False),
        _field("bigint_value", pa.int64(), null=False),
        _field("int32_bitmask", pa.int32(), null=False),
        _field("string_list", pa.list_(pa.utf8()), null=False),
        _field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32())), null=False),
    ]
)

SQL_INFO = pa.schema(
    [
        _field("info_name", pa.uint32(), null=False),
        _field("value", SQL_INFO_VALUE, null=False),
    ]
)

XDBC_TYPE_INFO = pa.schema(
    [
        _field("type_name", pa.utf8(), null=False),
        _field("data_type", pa.int32(), null=False),
        _field("column_size", pa.int32()),
        _field("literal_prefix", pa.utf8()),
        _field("literal_suffix", pa.utf8()),
        _field("create_params", pa.list_(_field("item", pa.utf8(), null=False))),
        _field("nullable", pa.int32(), null=False),
        _field("case_sensitive", pa.bool_(), null=False),
        _field("searchable", pa.int32(), null=False),
        _field("unsigned_attribute", pa.bool_()),
        _field("fixed_prec_scale", pa.bool_(), null=False),
        _field("auto_increment", pa.bool_()),
        _field("local_type_name", pa.utf8()),
        _field("minimum_scale", pa.int32()),
        _field("maximum_scale", pa.int32()),
        _field("sql_data_type", pa.int32(), null=False),
        _field("datetime_subcode", pa.int32()),
        _field("num_prec_radix", pa.int32()),
        _field("interval_precision", pa.int32()),
    ]
)


ESCAPE = "\\"

_TOKEN = re.compile(r"\\[%_\\]|.", re.DOTALL)
_WILDCARDS = {"%": ".*", "_": "."}


def like(pattern: str | None) -> Callable[[str], bool]:
    r"""Return a function that matches names against `pattern`, case-sensitively; without a pattern every name matches.

    >>> like("fl%")("flights"), like("a_b")("axb"), like(r"a\_b")("axb")
    (True, True, False)
    """
    if pattern is None:
        return lambda _: True
    matches = re.compile("".join(map(_regex, _TOKEN.findall(pattern))), re.DOTALL).fullmatch
    return lambda name: matches(name) is not None


def _regex(token: str) -> str:
    return _WILDCARDS.get(token) or re.escape(token[-1])
