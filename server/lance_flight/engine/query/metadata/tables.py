"""Registry of the metadata tables by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from lance_flight.catalog.table import Table
from lance_flight.engine.query.metadata.files import files_table
from lance_flight.engine.query.metadata.indexes import indexes_table
from lance_flight.engine.query.metadata.labels import branches_table, tags_table
from lance_flight.engine.query.metadata.partitions import partitions_table
from lance_flight.engine.query.metadata.snapshots import snapshots_table
from lance_flight.engine.query.metadata.specs import specs_table
from lance_flight.engine.query.metadata.table import MetadataTable
from lance_flight.engine.query.tables import TableView

Build = Callable[[Table, TableView], MetadataTable]


class _Listed(NamedTuple):
    """A metadata table: what builds it, and two questions that each is asked.

    `tells_of_all` has changes to all rows, also those that a row policy hides; the others speak of the partition tables of a
    view, or of names. `tells_of_columns` has values of columns, or sizes that depend on them. `of_partitions` is what a plain table has not.
    """

    build: Build
    tells_of_all: bool
    tells_of_columns: bool
    of_partitions: bool


_TABLES: Mapping[str, _Listed] = MappingProxyType(
    {
        "partitions": _Listed(
            lambda _, view: partitions_table(view), tells_of_all=False, tells_of_columns=True, of_partitions=True
        ),
        "snapshots": _Listed(
            lambda table, _: snapshots_table(table), tells_of_all=True, tells_of_columns=True, of_partitions=False
        ),
        "specs": _Listed(specs_table, tells_of_all=True, tells_of_columns=True, of_partitions=True),
        "files": _Listed(
            lambda _, view: files_table(view), tells_of_all=False, tells_of_columns=True, of_partitions=False
        ),
        "indexes": _Listed(
            lambda _, view: indexes_table(view), tells_of_all=False, tells_of_columns=False, of_partitions=False
        ),
        "tags": _Listed(
            lambda table, _: tags_table(table), tells_of_all=False, tells_of_columns=False, of_partitions=False
        ),
        "branches": _Listed(
            lambda table, _: branches_table(table), tells_of_all=False, tells_of_columns=False, of_partitions=True
        ),
    }
)
METADATA_TABLES: Mapping[str, Build] = MappingProxyType({name: each.build for name, each in _TABLES.items()})
OF_EVERYBODY = frozenset(name for name, each in _TABLES.items() if each.tells_of_all)
OF_COLUMNS = frozenset(name for name, each in _TABLES.items() if each.tells_of_columns)
OF_PARTITIONS = frozenset(name for name, each in _TABLES.items() if each.of_partitions)
LINEAGE = "lineage"
"""Metadata table of the rows themselves, each with its lineage: a view (`named_tables.py`)."""
