"""Properties of tables, `TBLPROPERTIES ('owner' = 'me')`: metadata of the table, options of its maintenance, and those of Iceberg and Delta.

A property is stored in the table's metadata by the name that it was given, so that Spark shows it again. Some have a meaning: those of
`WRITES` are options of each write, and those of `TIMES` are how long versions are retained. One of another system without a like here is
refused, with what says the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from lance_flight.engine.writes.definitions import MAINTENANCE_OPTIONS, RESET
from lance_flight.errors import InvalidInput, Unsupported

from lance_flight_client.parameters import quote_name
from lance_flight_client.spark.connector.relations import text
from lance_flight_client.spark.connector.table_options import TableWriteOptions

PARTITIONED_BY = "partitioned_by"
"""Property whose change is a change of the partition fields."""
PROVIDER = "lance_flight"
OF_CREATION = frozenset({"file_version", "stable_row_ids"})
"""Properties that a table is made with, and keeps."""
_OF_SPARK = frozenset({"provider", "owner", "comment", "is_managed_location", "table_type"})

DISTRIBUTION, SORT_BY = "write.distribution-mode", "write.sort-by"
WRITES: Mapping[str, str] = MappingProxyType(
    {DISTRIBUTION: "distribution", "write.target-file-size-bytes": "target_file_size", SORT_BY: "sort_by"}
)
"""Properties that are options of each write which does not have them itself."""

_VALUES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "format-version": ("2",),
        "write.merge.mode": ("copy-on-write",),
        "write.update.mode": ("copy-on-write",),
        "delta.enablechangedatafeed": ("true",),
        "delta.columnmapping.mode": ("name", "id"),
        "delta.enabledeletionvectors": ("true",),
        "delta.autooptimize.optimizewrite": ("true",),
    }
)
"""Properties with the values that say how a table is, whatever they say elsewhere."""


def _milliseconds(value: str) -> str:
    return f"{int(value) / 1000:.15g}s"


def _interval(value: str) -> str:
    """Return a retention for Delta's.

    >>> _interval("interval 30 days"), _interval("INTERVAL 2 weeks")
    ('30d', '14d')
    """
    match = re.fullmatch(r"(?:interval\s+)?(\d+)\s+(hour|day|week)s?", value.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(value)
    number, unit = int(match[1]), match[2].lower()
    return f"{number}h" if unit == "hour" else f"{number * 7}d" if unit == "week" else f"{number}d"


_TIMES: Mapping[str, tuple[Callable[[str], str], str]] = MappingProxyType(
    {
        "history.expire.max-snapshot-age-ms": (_milliseconds, "milliseconds"),
        "delta.logretentionduration": (_interval, "'interval 30 days', or hours, or weeks"),
        "delta.deletedfileretentionduration": (_interval, "'interval 7 days', or hours, or weeks"),
    }
)
"""Properties that say how long versions are retained, each with how it is read and what is expected."""

_OF_OTHERS: Mapping[str, str] = MappingProxyType(
    {
        "location": "none: a table lies in the root, at a place of its own",
        "external": "CREATE TABLE, without EXTERNAL",
        "format-version": "'2', or none: see stored formats",
        "write.format": "none: rows are stored in Lance",
        "write.metadata": "none: versions are kept until VACUUM",
        "write.merge.mode": "'copy-on-write': a change of rows writes their partitions anew",
        "write.update.mode": "'copy-on-write': a change of rows writes their partitions anew",
        "write.spark.accept-any-schema": "the option 'mergeSchema' of a write, or INSERT WITH SCHEMA EVOLUTION",
        "write.": ", ".join(WRITES),
        "read.": "the option 'partitions' of a read",
        "history.expire": "'history.expire.max-snapshot-age-ms', or 'retain'",
        "commit.": "none: a commit is tried again by itself",
        "delta.enablechangedatafeed": "'true': t.changes is always there",
        "delta.autooptimize": "'compact_files' or 'maintenance'",
        "delta.columnmapping": "'name': columns are renamed and dropped without",
        "delta.enabledeletionvectors": "'true': deleted rows are marked in Lance's files",
        "delta.": "none: properties of Delta have no meaning here",
    }
)
"""Properties of others by how their names begin, the longest first, with what says the same."""


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Metadata of a table, and its options in WITH or SET, that properties become."""

    notes: Mapping[str, str]
    options: Mapping[str, str]

    @property
    def clauses(self) -> str:
        """The clauses of a CREATE TABLE, each with a blank before it."""
        options = ", ".join(f"{name} = {text(value)}" for name, value in self.options.items())
        return f" METADATA ({_pairs(self.notes)})" * bool(self.notes) + f" WITH ({options})" * bool(options)


def of_new_table(properties: Mapping[str, str], beside: Mapping[str, str] = MappingProxyType({})) -> TableSettings:
    """Return what the properties of a new table become, and those that its other clauses say `beside`; `Unsupported` for one without a like."""
    provider = properties.get("provider", PROVIDER)
    if provider.lower() != PROVIDER:
        raise InvalidInput(f'format {provider} of a new table: expected USING {PROVIDER}, or .format("{PROVIDER}")')
    for name in sorted(properties):
        # Spark gives an option twice, once below this prefix.
        option = name.removeprefix("option.")
        if option != name and option in {*OF_CREATION, *MAINTENANCE_OPTIONS}:
            raise Unsupported(
                f"CREATE TABLE: option {option!r}; expected TBLPROPERTIES ({text(option)} = …), or .tableProperty({text(option)}, …)"
            )
        if option != name and option not in _OF_SPARK:
            raise Unsupported(f"CREATE TABLE: option {option!r} is not one of a table; expected TBLPROPERTIES")
    notes: dict[str, str] = dict(beside)
    options: dict[str, str] = {}
    for name in properties.keys() - _OF_SPARK:
        kind, stored, value = _read(name, properties[name], "CREATE TABLE")
        (options if kind == "option" else notes)[stored] = value
    return TableSettings(dict(sorted(notes.items())), dict(sorted(options.items())))


def alterations(table: str, changes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the statements that change properties of a table: one for its metadata, one for its options, one for each other one."""
    notes: dict[str, str | None] = {}
    options: dict[str, str | None] = {}
    for change in changes:
        name, value = change["name"], change.get("value")
        if name == "comment":
            yield f"COMMENT ON TABLE {table} IS {'NULL' if value is None else text(value)}"
        elif name == PARTITIONED_BY:
            yield f"ALTER TABLE {table} SET PARTITIONED BY ({value or ''})"
        elif name in OF_CREATION:
            raise Unsupported(f"property {name!r} cannot be changed; expected it in CREATE TABLE")
        elif value is not None:
            kind, stored, text_of = _read(name, value, "ALTER TABLE")
            (options if kind == "option" else notes)[stored] = text_of
        elif name in MAINTENANCE_OPTIONS or name.lower() in _TIMES:
            options["retain" if name.lower() in _TIMES else name] = None
        else:
            notes[name] = None
    if notes:
        yield f"ALTER TABLE {table} SET METADATA ({_pairs(notes)})"
    if options:
        pairs = (f"{name} = {text(RESET if value is None else value)}" for name, value in options.items())
        yield f"ALTER TABLE {table} SET ({', '.join(pairs)})"


def sort_keys(paths: Sequence[Sequence[str]]) -> str:
    """Return columns as `write.sort-by` lists them; `Unsupported` for one inside another."""
    for path in paths:
        if len(path) > 1:
            raise Unsupported(f"rows are sorted by columns; expected one in place of {'.'.join(path)!r}")
    return ", ".join(quote_name(name) for (name,) in paths)


def sorting(table: str, distribution: str | None, sort_by: str | None) -> str:
    """Return the statement that sets how the rows of writes lie; None takes one of both back."""
    return f"ALTER TABLE {table} SET METADATA ({_pairs({DISTRIBUTION: distribution, SORT_BY: sort_by})})"


def _pairs(notes: Mapping[str, str | None]) -> str:
    return ", ".join(f"{text(key)} = {'NULL' if value is None else text(value)}" for key, value in notes.items())


def _read(name: str, value: str, statement: str) -> tuple[str, str, str]:
    """Return whether a property is an `option` or a `note`, its name as one, and its value."""
    lower = name.lower()
    if name in OF_CREATION or name in MAINTENANCE_OPTIONS:
        return "option", name, value
    if lower in _TIMES:
        read, expected = _TIMES[lower]
        try:
            return "option", "retain", read(value)
        except ValueError:
            raise InvalidInput(f"{statement}: property {name!r} is {value!r}; expected {expected}") from None
    if lower in WRITES:
        TableWriteOptions.parse({WRITES[lower]: value})
        return "note", lower, value
    if lower in _VALUES:
        if value.lower() in _VALUES[lower]:
            return "note", name, value
        raise Unsupported(
            f"{statement}: property {name!r} is {value!r}; expected {_instead_of(lower) or ' or '.join(_VALUES[lower])}"
        )
    instead = _instead_of(lower)
    if instead is not None:
        raise Unsupported(f"{statement}: property {name!r}; expected {instead}")
    return "note", name, value


def _instead_of(name: str) -> str | None:
    begins = (begin for begin in _OF_OTHERS if f"{name}.".startswith(f"{begin.rstrip('.')}."))
    return next((_OF_OTHERS[begin] for begin in begins), None)


def distribution_options(given: TableWriteOptions, notes: Mapping[str, str]) -> TableWriteOptions:
    """Return how the rows of a write lie: by its options, and by the properties of the table where it has none."""
    of_table = TableWriteOptions.parse({option: notes[name] for name, option in WRITES.items() if name in notes})
    own = {name: getattr(given, name) for name in WRITES.values() if getattr(given, name) is not None}
    return replace(of_table, **own)
