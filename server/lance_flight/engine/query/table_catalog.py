"""DataFusion's catalog `lance`: the schemas of a root, and tables that are resolved when a statement names them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.dataset as pads
from datafusion.catalog import CatalogProvider, SchemaProvider
from datafusion.catalog import Table as DataFusionTable

from lance_flight.catalog.roots.directory import Root

Resolve = Callable[[str, str], pads.Dataset | DataFusionTable | None]
"""Function that resolves a schema and a table name as written in SQL; None without such a table."""


class TableCatalog(CatalogProvider):
    """Catalog provider of the schemas of a root."""

    def __init__(self, root: Root, resolve: Resolve) -> None:
        self._root = root
        self._resolve = resolve

    def schema_names(self) -> set[str]:
        return set(self._root.schemas())

    def schema(self, name: str) -> _Schema | None:
        return _Schema(self._root, name, self._resolve)


class _Schema(SchemaProvider):
    """Schema provider of one SQL schema."""

    owner_name = None

    def __init__(self, root: Root, name: str, resolve: Resolve) -> None:
        self._root = root
        self._name = name
        self._resolve = resolve

    def table_names(self) -> set[str]:
        return {name.name for name in self._root.tables() if name.db_schema == self._name}

    def table(self, name: str) -> DataFusionTable | None:
        found = self._resolve(self._name, name)
        return DataFusionTable(found) if isinstance(found, pads.Dataset) else found

    def table_exist(self, name: str) -> bool:
        return self.table(name) is not None

    def register_table(self, name: str, table: object) -> None:
        raise NotImplementedError

    def deregister_table(self, name: str, cascade: bool = False) -> None:  # noqa: FBT001, FBT002 - DataFusion's
        raise NotImplementedError
