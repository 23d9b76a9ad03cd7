"""One version of a `__manifest` as a value: its rows, pins, specs, schema and properties.

Small and pickled with the work that reads the table, in whatever process.

Table metadata, the spec's place, counts first; then the metadata of the `v<N>` rows, which hold a `partition_spec` and a
`schema` each; then the Arrow schema metadata, under the same keys as in table metadata.

A statement reads exactly one. Everything here is a value; `manifest.py` reads and writes the table itself.

Pins: the version of a partition table that a `__manifest` row says to read.

The spec allows four combinations of `read_version`, `read_branch` and `read_tag` (Transaction, Read Behavior);
each is a class here, and there is no way to write a fifth.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.errors import Corrupt, Unsupported
from lance_flight.model.arrow_types import is_string
from lance_flight.model.file_versions import NEWEST, check_version
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import BELOW_A_SPEC, SEPARATOR, TABLE, spec_id_of, spec_namespace
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import SPEC_KEY, PartitionSpec


class PinColumns(NamedTuple):
    """The three pin columns of one `__manifest` row."""

    read_version: int | None = None
    read_branch: str | None = None
    read_tag: str | None = None


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest version of the main branch: all three columns are NULL."""

    @property
    def columns(self) -> PinColumns:
        return PinColumns()

    def __str__(self) -> str:
        return "newest version"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the main branch: `read_version` alone."""

    version: int

    @property
    def columns(self) -> PinColumns:
        return PinColumns(read_version=self.version)

    def __str__(self) -> str:
        return f"version {self.version}"


@dataclass(frozen=True, slots=True)
class PlainVersion(Version):
    """A version of a plain table: the next one on top of it is read by everybody as soon as it is committed.

    `committed_at` tells it from the version of that number of a table that was dropped and made again.
    """

    committed_at: datetime


@dataclass(frozen=True, slots=True)
class BranchVersion:
    """One version of a branch: `read_branch` and `read_version`."""

    branch: str
    version: int

    @property
    def columns(self) -> PinColumns:
        return PinColumns(read_version=self.version, read_branch=self.branch)

    def __str__(self) -> str:
        return f"version {self.version} of branch {self.branch!r}"


@dataclass(frozen=True, slots=True)
class Tag:
    """The version that a tag of the table refers to: `read_tag` alone."""

    tag: str

    @property
    def columns(self) -> PinColumns:
        return PinColumns(read_tag=self.tag)

    def __str__(self) -> str:
        return f"tag {self.tag!r}"


Pin = Latest | Version | BranchVersion | Tag
FixedPin = Version | BranchVersion
"""A pin that always means the same version."""


def pin_from_columns(read_version: int | None, read_branch: str | None, read_tag: str | None, *, object_id: str) -> Pin:
    """Return the pin of the row `object_id`; `Corrupt` for a combination that the spec does not have.

    >>> pin_from_columns(5, None, None, object_id="v1$a$dataset")
    Version(version=5)
    """
    match read_version, read_branch, read_tag:
        case None, None, None:
            return Latest()
        case int(version), None, None:
            return Version(version)
        case int(version), str(branch), None:
            return BranchVersion(branch, version)
        case None, None, str(tag):
            return Tag(tag)
    raise Corrupt(
        f"__manifest row {object_id!r} has read_version={read_version!r}, read_branch={read_branch!r}, "
        f"read_tag={read_tag!r}; expected read_version alone, read_branch with read_version, read_tag alone, or none"
    )


@dataclass(frozen=True, slots=True, eq=False)
class IdentityValues:
    """The partition values under the identity, by the ids of their source columns."""

    by_source: Mapping[int, pa.Scalar]

    def __reduce__(self) -> tuple[object, ...]:
        # Scalars are pickled as Python's values, which some have no counterpart among.
        return _identity_values, ({number: pa.array([value]) for number, value in self.by_source.items()},)


NO_VALUES = IdentityValues({})


@dataclass(frozen=True, slots=True, eq=False)
class PartitionContext:
    """The schema of the namespace that a partition table belongs to, and the table's values under the identity."""

    schema: NamespaceSchema
    identity: IdentityValues = NO_VALUES


def _identity_values(arrays: Mapping[int, pa.Array]) -> IdentityValues:
    return IdentityValues({number: array[0] for number, array in arrays.items()})


SCHEMA_KEY = "schema"
NAMESPACE_KEY = "lance_flight:namespace_key"
"""The key of a namespace that we write: it has the secret that names of its partitions are made with."""
STABLE_ROW_IDS = "lance_flight:stable_row_ids"
"""The key of a namespace whose rows keep their ids (`tables/rows.py`), in the table metadata of its `__manifest`."""
DERIVED_VALUES = "lance_flight:derived_values"
"""The key of a namespace whose rows all lie where the derived expressions of its specs say, in the same place.

Releases that did not set it took parts of timestamps in UTC, and a field inside a struct for NULL.
"""
FILE_VERSION = "lance_flight:file_version"
"""The key of the version of Lance's file format that new partition tables have, where one was chosen; it stands there, too."""
PARTITION_SPEC = "partition_spec"


class Place(Enum):
    """Location of a property that is not in the spec's place."""

    ROW = "the metadata of its v<N> rows"
    ARROW = "its Arrow schema metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class Misplaced:
    """A partition spec or the schema, by its key of the spec, that is stored elsewhere than the spec demands."""

    key: str
    text: str
    place: Place


def read_misplaced(metadata: Mapping[str, str], schema: pa.Schema, rows: pa.Table) -> tuple[Misplaced, ...]:
    """Return the specs and the schema that the table metadata of a `__manifest` lacks, but other places of it have."""
    misplaced = {prop.key: prop for prop in [*_in_arrow(schema), *_in_rows(rows)]}
    return tuple(prop for key, prop in sorted(misplaced.items()) if key not in metadata)


def check_in_place(table: str, misplaced: Sequence[Misplaced]) -> None:
    """Refuse to write a namespace whose specs or schema stand elsewhere: its own writer would not see ours."""
    if misplaced:
        places = " and ".join(dict.fromkeys(prop.place.value for prop in misplaced))
        raise Unsupported(
            f"table {table!r} keeps {', '.join(prop.key for prop in misplaced)} in {places}, and is only read; expected them"
            f" in the table metadata of its __manifest, where `lance-flight migrate ROOT {table}` (in SQL: MIGRATE"
            f" TABLE {table}) puts them"
        )


def _in_arrow(schema: pa.Schema) -> Iterator[Misplaced]:
    for key, value in (schema.metadata or {}).items():
        name = key.decode()
        if name == SCHEMA_KEY or name.startswith(SPEC_KEY):
            yield Misplaced(key=name, text=value.decode(), place=Place.ARROW)


def _in_rows(rows: pa.Table) -> Iterator[Misplaced]:
    """Return what the rows `v<N>` say, in the order of their numbers: the schema of the last one is that of the namespace."""
    if not all(name in rows.column_names and is_string(rows.schema.field(name).type) for name in _OF_ROWS):
        return
    versions = rows.filter(pc.match_substring_regex(rows["object_id"], "^v[1-9][0-9]*$"))
    texts = {
        spec_id_of(name): text for name, text in zip(*(versions[name].to_pylist() for name in _OF_ROWS), strict=True)
    }
    for number, text in sorted((number, text) for number, text in texts.items() if number is not None and text):
        properties = read_json(text)
        if isinstance(properties, dict):
            keys = {PARTITION_SPEC: f"{SPEC_KEY}{number}", SCHEMA_KEY: SCHEMA_KEY}
            for name, key in keys.items():
                if properties.get(name) is not None:
                    yield Misplaced(key=key, text=_text(properties[name]), place=Place.ROW)


_OF_ROWS = ("object_id", "metadata")


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


PIN_COLUMNS = ("read_version", "read_branch", "read_tag")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTable:
    """One partition table of a snapshot: where it lies, which version of it to read, and its values under the identity."""

    spec_id: int
    object_id: str
    location: str
    pin: Pin
    identity: IdentityValues = field(default=NO_VALUES, compare=False, repr=False)


@dataclass(frozen=True, eq=False)
class SpecTables:
    """The partition tables of one spec version: `rows` are their `__manifest` rows, in a fixed order.

    `plain_at` is when the version was committed that a plain table is read at, as its own only partition (None: partitioned).
    """

    spec: PartitionSpec
    rows: pa.Table
    plain_at: datetime | None = None

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @cached_property
    def values(self) -> pa.Table:
        """The partition values, one column per field in spec order."""
        return self.rows.select([field.column for field in self.spec.fields]).combine_chunks()

    def table(self, index: int) -> PartitionTable:
        """Return the partition table in row `index`."""
        (table,) = self.tables(np.array([index]))
        return table

    def tables(self, indices: np.ndarray | None = None) -> list[PartitionTable]:
        """Return the partition tables in the rows `indices` (all of them without)."""
        rows = self._columns if indices is None else self._columns.take(pa.array(indices, pa.int64()))
        listed = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        return [
            self._table(identity, *values) for identity, values in zip(self._identities(indices), listed, strict=True)
        ]

    def _identities(self, indices: np.ndarray | None) -> list[IdentityValues]:
        """Return the values under the identity of the tables in some rows."""
        columns = {f.source_ids[0]: self.values[f.column] for f in self.spec.fields if f.rule.keeps_value}
        rows = range(len(self)) if indices is None else indices.tolist()
        if not columns:
            return [NO_VALUES] * len(rows)
        arrays = {number: column.combine_chunks() for number, column in columns.items()}
        return [IdentityValues({number: array[row] for number, array in arrays.items()}) for row in rows]

    def _table(self, identity: IdentityValues, object_id: str, location: str, *pin: Any) -> PartitionTable:
        if not location:
            raise Corrupt(f"__manifest row {object_id!r} is a table without a location")
        version = pin_from_columns(*pin, object_id=object_id)
        if isinstance(version, Version) and self.plain_at is not None:
            version = PlainVersion(version.version, self.plain_at)
        return PartitionTable(
            spec_id=self.spec.id, object_id=object_id, location=location, pin=version, identity=identity
        )

    @cached_property
    def _columns(self) -> pa.RecordBatch:
        known = self.rows.column_names
        columns = [
            self.rows[name].combine_chunks() if name in known else pa.nulls(len(self))
            for name in ("object_id", "location", *PIN_COLUMNS)
        ]
        return pa.RecordBatch.from_arrays(columns, ["object_id", "location", *PIN_COLUMNS])


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One version of a partitioned namespace.

    `rows` is the whole `__manifest` at `version`, each at its row address in `addresses`; `metadata` its table metadata,
    with what is still `pending` there (`manifest_rows.py`);
    `committed_at` in UTC; `table_branch` the Lance branch of partition tables that writes go to (None: wherever the pin is).
    One with changes on top has no addresses: it was never stored. `misplaced` are specs and schema that are not in `metadata`.
    A plain table has one that is not stored (`is_partitioned` False): itself as the only partition of a spec without fields.
    """

    version: int
    committed_at: datetime
    rows: pa.Table
    metadata: Mapping[str, str] = field(repr=False)
    specs: tuple[PartitionSpec, ...]
    schema: NamespaceSchema
    addresses: np.ndarray | None = field(default=None, repr=False)
    table_branch: str | None = None
    pending: Mapping[str, str] = field(default_factory=dict, repr=False)
    misplaced: tuple[Misplaced, ...] = ()
    is_partitioned: bool = True

    def overlay(self, rows: pa.Table) -> Snapshot:
        """Return this snapshot with `rows` in place of those with their object ids, or beside them."""
        kept = self.rows.filter(pc.invert(pc.is_in(self.rows["object_id"], value_set=rows["object_id"])))
        return replace(self, rows=pa.concat_tables([kept, rows]).combine_chunks(), addresses=None)

    def only(self, table_ids: Collection[str]) -> Snapshot:
        """Return this snapshot as if it had these partition tables alone, and the namespaces above them."""
        parts = (name.split(SEPARATOR) for name in table_ids)
        kept = {SEPARATOR.join(names[:depth]) for names in parts for depth in range(2, len(names) + 1)}
        ids = self.rows["object_id"]
        is_other = pc.invert(pc.match_substring_regex(ids, BELOW_A_SPEC))
        mine = pc.or_(is_other, pc.is_in(ids, value_set=pa.array(sorted(kept), pa.utf8())))
        return replace(self, rows=self.rows.filter(mine).combine_chunks(), addresses=None)

    @property
    def current_spec(self) -> PartitionSpec:
        """The spec that new rows are written under: the one with the highest number."""
        return self.specs[-1]

    @property
    def has_stable_row_ids(self) -> bool:
        """True if rows of its partition tables keep their ids."""
        return self.metadata.get(STABLE_ROW_IDS) == str(True)

    @property
    def file_version(self) -> str:
        """The version of Lance's file format that its new partition tables have; those that are there keep theirs."""
        return check_version(self.metadata.get(FILE_VERSION, NEWEST), f"{FILE_VERSION} in the metadata of a __manifest")

    @cached_property
    def doubtful_fields(self) -> frozenset[str]:
        """The ids of the partition fields by whose values rows may not lie: an older release computed them otherwise.

        A namespace that only others have written follows the spec.
        """
        if NAMESPACE_KEY not in self.metadata or DERIVED_VALUES in self.metadata:
            return frozenset()
        fields = (field for spec in self.specs for field in spec.fields)
        return frozenset(field.field_id for field in fields if field.was_computed_otherwise(self.schema))

    @cached_property
    def partition_sources(self) -> frozenset[int]:
        """The ids of the columns that a partition field of any spec is computed from."""
        return frozenset(number for spec in self.specs for field in spec.fields for number in field.source_ids)

    def spec(self, spec_id: int) -> PartitionSpec:
        """Return the spec with this number, or `Corrupt`."""
        for spec in self.specs:
            if spec.id == spec_id:
                return spec
        raise Corrupt(f"__manifest has no partition_spec_v{spec_id}; it has {[spec.id for spec in self.specs]}")

    @cached_property
    def tables(self) -> tuple[SpecTables, ...]:
        """The partition tables of every spec version, oldest spec first."""
        return tuple(self._spec_tables(spec, self._below(spec.id, "table")) for spec in self.specs)

    def _spec_tables(self, spec: PartitionSpec, rows: pa.Table) -> SpecTables:
        return SpecTables(spec, rows, None if self.is_partitioned else self.committed_at)

    def tables_of(self, spec_id: int) -> SpecTables:
        """Return the partition tables of one spec version."""
        return next(tables for tables in self.tables if tables.spec.id == spec_id)

    def all_tables(self) -> list[PartitionTable]:
        """Return the partition tables of all spec versions, oldest spec first."""
        return [table for tables in self.tables for table in tables.tables()]

    @property
    def table_count(self) -> int:
        """Number of partition tables, over all spec versions."""
        return sum(len(tables) for tables in self.tables)

    def namespaces_of(self, spec_id: int, level: int) -> pa.Table:
        """Return the rows of the partition namespaces at a level (1 = the first field) of one spec version."""
        below = self._below(spec_id, "namespace")
        return below.filter(pc.equal(pc.count_substring(below["object_id"], SEPARATOR), level))

    def row(self, object_id: str) -> pa.Table:
        """Return the row of one object: a table of one row, or of none."""
        place = pc.index(self.rows["object_id"], pa.scalar(object_id, self.rows.schema.field("object_id").type)).as_py()
        return self.rows.slice(max(place, 0), int(place >= 0))

    @cached_property
    def oldest_spec(self) -> pa.Table:
        """The row of the oldest spec: a table of one row, or of none."""
        return self.row(spec_namespace(self.specs[0].id))

    def rows_of(self, object_ids: Sequence[str]) -> pa.Table:
        """Return the rows of some objects, in the order of their ids; what is not there is left out."""
        if len(object_ids) == 1:
            return self.row(object_ids[0])
        wanted = pa.array(object_ids, pa.utf8())
        rows = self.rows.filter(pc.is_in(self.rows["object_id"], value_set=wanted))
        return rows.take(pc.index_in(wanted, value_set=rows["object_id"]).drop_null())

    def tables_named(self, object_ids: Sequence[str]) -> dict[str, PartitionTable]:
        """Return the partition tables with these object ids, those that are there."""
        tables_of = (
            self._spec_tables(spec, self.rows_of([name for name in object_ids if spec_id_of(name) == spec.id])).tables()
            for spec in self.specs
        )
        return {table.object_id: table for tables in tables_of for table in tables}

    def context_of(self, table: PartitionTable) -> PartitionContext:
        """Return what this snapshot says of the rows of one of its tables."""
        return PartitionContext(self.schema, table.identity)

    @cached_property
    def table_ids(self) -> frozenset[str]:
        """The object ids of all partition tables."""
        return frozenset(name for tables in self.tables for name in tables.rows["object_id"].to_pylist())

    @cached_property
    def floating(self) -> tuple[PartitionTable, ...]:
        """The tables that are read at whatever is their newest version."""
        if self.is_pinned:
            return ()
        return tuple(table for table in self.all_tables() if isinstance(table.pin, Latest))

    @cached_property
    def is_pinned(self) -> bool:
        """True if every partition table has a fixed version, so that this snapshot can never change."""
        if "read_version" not in self.rows.column_names:
            return False
        is_table, has_none = pc.equal(self.rows["object_type"], "table"), pc.is_null(self.rows["read_version"])
        return not pc.any(pc.and_(is_table, has_none)).as_py()

    def _below(self, spec_id: int, object_type: str) -> pa.Table:
        ids = self.rows["object_id"]
        mine = pc.and_(
            pc.equal(self.rows["object_type"], object_type),
            pc.starts_with(ids, spec_namespace(spec_id) + SEPARATOR),
        )
        if object_type == "table":
            mine = pc.and_(mine, pc.ends_with(ids, SEPARATOR + TABLE))
        return self.rows.filter(mine)
