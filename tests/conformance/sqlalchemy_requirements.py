"""What SQLAlchemy's own test suite may ask of the dialect: each requirement that is closed, and each test that is left out, says why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy.testing import exclusions, provision
from sqlalchemy.testing.requirements import SuiteRequirements

FOREIGN_KEYS = "the server has no foreign keys"
AUTOINCREMENT = "keys come from the application"
LENGTHS = "the server stores no lengths of texts"
NULLS = "DataFusion concatenates no two columns without a type"
NAMES = "a primary key is called after its table"

CLOSED: Mapping[str, str] = MappingProxyType(
    {
        "autocommit": "connections are in autocommit unless another level is asked for",
        "autoincrement_insert": AUTOINCREMENT,
        "autoincrement_without_sequence": AUTOINCREMENT,
        "date_coerces_from_datetime": "a moment in a column of dates is refused, since its time of day would be lost",
        "duplicate_key_raises_integrity_error": "primary keys are not enforced",
        "duplicate_names_in_cursor_description": "DataFusion refuses columns of one name",
        "foreign_key_constraint_reflection": FOREIGN_KEYS,
        "implements_get_lastrowid": AUTOINCREMENT,
        "indexes_with_ascdesc": "an index has no order",
        "json_type": "its tests leave keys to the server; the type is tried in test_sqlalchemy.py",
        "named_constraints": NAMES,
        "reflects_pk_names": NAMES,
        "temp_table_reflection": "a temporary table belongs to the session of one connection, which the suite does not keep",
        "temporary_tables": "a temporary table belongs to the session of one connection, which the suite does not keep",
        "unique_constraint_reflection": "the server has no unique constraints",
        "unique_constraints_reflect_as_index": "the server has no unique constraints",
    }
)
"""Requirement that the suite opens by default → why it is closed."""

OPENED = (
    "array_type",
    "bound_limit_offset",
    "comment_reflection",
    "comment_reflection_full_unicode",
    "ctes",
    "datetime_timezone",
    "except_",
    "intersect",
    "isolation_level",
    "regexp_match",
    "regexp_replace",
    "schemas",
    "supports_is_distinct_from",
    "timestamp_microseconds",
    "unicode_ddl",
    "uuid_data_type",
    "window_functions",
)
"""Requirements that the suite closes by default, and the dialect meets."""

LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        "BizarroCharacterTest.test_fk_ref": FOREIGN_KEYS,
        "CompositeKeyReflectionTest.test_fk_column_order": FOREIGN_KEYS,
        "ComponentReflectionTest": "its tables have a unique index, which the dialect refuses; test_sqlalchemy.py tries reflection",
        "ComponentReflectionTestExtra.test_string_length_reflection": LENGTHS,
        "DifficultParametersTest.test_round_trip_same_named_column": "a column has no dot in its name",
        "InsertBehaviorTest.test_autoclose_on_insert": AUTOINCREMENT,
        "InsertBehaviorTest.test_insert_from_select_autoinc": AUTOINCREMENT,
        "InsertBehaviorTest.test_insert_from_select_autoinc_no_rows": AUTOINCREMENT,
        "InsertBehaviorTest.test_no_results_for_non_returning_insert": AUTOINCREMENT,
        "LongNameBlowoutTest.test_long_convention_name": NAMES,
        "QuotedNameArgumentTest": "its tables have indices whose names are no identifiers, which the server refuses",
        "StringTest.test_concatenate_binary": NULLS,
        "StringTest.test_concatenate_clauselist": NULLS,
        "TrueDivTest.test_truediv_divisor": "DataFusion keeps the scale of decimals where it divides, or overflows",
        "TrueDivTest.test_truediv_numeric": "DataFusion reads 5.52 as a floating-point number",
        "WindowFunctionTest.test_window_rows_between_w_caching": "DataFusion takes literals alone as the offsets of a frame",
    }
)
"""Test, as `Class` or `Class.test`, → why it is left out."""


def _property(kind: Callable[[], Any]) -> property:
    return property(lambda _: kind())


def _closed(reason: str) -> property:
    return _property(lambda: exclusions.skip_if(lambda: True, reason))


Requirements = type(
    "Requirements",
    (SuiteRequirements,),
    {
        "__doc__": "Requirements of SQLAlchemy's suite, as far as they differ from its defaults.",
        "__module__": __name__,
        **{name: _closed(reason) for name, reason in CLOSED.items()},
        **{name: _property(exclusions.open) for name in OPENED},
        "get_isolation_levels": lambda _, __: {
            "default": "AUTOCOMMIT",
            "supported": ["AUTOCOMMIT", "SNAPSHOT", "SERIALIZABLE"],
        },
    },
)


@provision.temp_table_keyword_args.for_db("lance_flight")
def temporary(*_: Any) -> dict[str, list[str]]:
    """How the suite declares a temporary table."""
    return {"prefixes": ["TEMPORARY"]}
