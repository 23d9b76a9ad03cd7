"""Engine spec for Superset: how its charts truncate times and write them in SQL (entry point `superset.db_engine_specs`).

`LanceFlightEngineSpec` is made when Superset asks for it, which alone has the class that it derives from.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import Any, ClassVar

TIME_GRAINS: Mapping[str | None, str] = MappingProxyType(
    {
        None: "{col}",
        "PT1S": "date_trunc('second', {col})",
        "PT1M": "date_trunc('minute', {col})",
        "PT5M": "date_bin(INTERVAL '5 minutes', {col}, TIMESTAMP '1970-01-01')",
        "PT15M": "date_bin(INTERVAL '15 minutes', {col}, TIMESTAMP '1970-01-01')",
        "PT1H": "date_trunc('hour', {col})",
        "P1D": "date_trunc('day', {col})",
        "P1W": "date_trunc('week', {col})",
        "P1M": "date_trunc('month', {col})",
        "P3M": "date_trunc('quarter', {col})",
        "P1Y": "date_trunc('year', {col})",
    }
)
"""Expressions of a column `{col}` truncated to a time grain, by the ISO 8601 duration of the grain. Their conditions prune partitions."""


class EngineSpec:
    """Answers to what Superset asks of an engine; `LanceFlightEngineSpec` has them before those of `BaseEngineSpec`."""

    engine = "lance_flight"
    engine_name = "lance-flight"
    default_driver = "adbc"
    sqlalchemy_uri_placeholder = "lance_flight://host:32010/?token=…"
    _time_grain_expressions: ClassVar[dict[str | None, str]] = dict(TIME_GRAINS)

    @classmethod
    def epoch_to_dttm(cls) -> str:
        """Return the expression of a time for a column `{col}` of seconds."""
        return "CAST(to_timestamp_seconds({col}) AS TIMESTAMP)"

    @classmethod
    def convert_dttm(cls, target_type: str, dttm: datetime, db_extra: dict[str, Any] | None = None) -> str | None:  # noqa: ARG003 - Superset's
        """Return a time as a literal of a column's type; None for a type that is no time.

        >>> EngineSpec.convert_dttm("TIMESTAMP", datetime(2025, 2, 20, 7))
        "TIMESTAMP '2025-02-20 07:00:00.000000'"
        """
        kind = target_type.upper()
        if kind == "DATE":
            return f"DATE '{date(dttm.year, dttm.month, dttm.day).isoformat()}'"
        if kind.startswith(("TIMESTAMP", "DATETIME")):
            return f"TIMESTAMP '{dttm.isoformat(sep=' ', timespec='microseconds')}'"
        return None


def __getattr__(name: str) -> type:
    if name != "LanceFlightEngineSpec":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from superset.db_engine_specs.base import BaseEngineSpec  # type: ignore[import-not-found] # noqa: PLC0415 - is there in Superset alone

    return type(name, (EngineSpec, BaseEngineSpec), {"__module__": __name__, "__doc__": EngineSpec.__doc__})
