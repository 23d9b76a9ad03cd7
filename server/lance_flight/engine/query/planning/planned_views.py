"""Views and masked tables that one statement names: each is planned as the query that it stands for, which the optimiser takes in.

A view is looked for where a name is no table's, and a masked table stands before the stored one. DataFusion asks for names while it plans, and must not be called then: so a view is
noted, the planning fails, the view is planned, and the statement is planned again.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from datafusion import DataFrame, col
from datafusion.catalog import Table as DataFusionTable

from lance_flight.catalog.roots.directory import Root, TableName
from lance_flight.catalog.roots.listings import ViewDefinition
from lance_flight.engine.query.names.statement_context import StatementContext
from lance_flight.engine.query.policies.restrictions import MaskedTable
from lance_flight.engine.sql.references import Reference, quote_parts
from lance_flight.errors import Conflict, LanceFlightError, LimitExceeded, NotFound, Refused, SqlError

MOST_VIEWS = 100
"""Most views that a statement reads, those that views read included."""
DEEPEST = 16
"""Most views within each other."""


class PlannedViews:
    """Views of one session, by name: their definitions, and the tables that DataFusion reads them by."""

    def __init__(self, context: StatementContext) -> None:
        self._definitions: dict[TableName, ViewDefinition] = {}
        self._tables: dict[TableName, DataFusionTable] = {}
        self._wanted: list[ViewDefinition | MaskedTable] = []
        self._path: list[TableName] = []
        self._masking: TableName | None = None
        self.masked: set[TableName] = set()
        self.begin(context)

    def begin(self, context: StatementContext) -> None:
        """Read the root of another run."""
        self._root: Root = context.root
        self._digests, self._access = context.views, context.access

    @property
    def texts(self) -> list[str]:
        """Return the queries of the views."""
        return [view.sql for view in self._definitions.values()]

    @property
    def digests(self) -> dict[str, str]:
        """Return what tells the definitions from later ones, by `schema.name`."""
        return {str(name): view.digest for name, view in self._definitions.items()}

    @property
    def are_current(self) -> bool:
        """True if no view has another definition by now."""
        return all(self._root.view(name) == view for name, view in self._definitions.items())

    def resolve(self, name: TableName) -> DataFusionTable | None:
        """Return what DataFusion reads a view by; note one that is not planned yet, and return None as without one."""
        if name in self._tables:
            return self._tables[name]
        view = self._root.view(name)
        if view is None:
            if (named := Reference.parse(name).table) != name and self._root.view(named) is not None:
                raise NotFound(
                    f"{named.name!r} is a view, which has no versions and no metadata tables; expected a table"
                )
            return None
        if self._access.lists_columns(name):
            raise Refused(
                f"{name.name!r} is a view, and {self._access.principal!r} has SELECT on listed columns of it; expected SELECT without a list"
            )
        if self._digests.get(str(name), view.digest) != view.digest:
            raise Conflict(f"view {name.name!r} was replaced since this statement was planned; run it again")
        self._wanted.append(view)
        return None

    def resolve_masked(self, table: MaskedTable) -> DataFusionTable | None:
        """Return what DataFusion reads a masked table by; note one that is not planned yet, and return None as without one."""
        if table.name not in self._tables:
            self._wanted.append(table)
        return self._tables.get(table.name)

    def is_planning(self, name: TableName) -> bool:
        """Return whether the query of this masked table is being planned, and may read the stored one."""
        return self._masking == name

    def forget_masked(self) -> None:
        """Plan masked tables anew, since their stored ones have other columns from here on."""
        for name in self.masked:
            self._tables.pop(name, None)

    def forget(self) -> None:
        """Plan all views anew when they are named next."""
        self._tables.clear()

    def plan(self, statement: Callable[[], DataFrame], frame: Callable[[str], DataFrame]) -> DataFrame:
        """Plan a statement, and with `frame` the views that it names and that are not planned yet."""
        while True:
            self._wanted.clear()
            try:
                return statement()
            except LanceFlightError:
                by_name = {view.name: view for view in self._wanted}
                if not by_name:
                    raise
            for view in by_name.values():
                if isinstance(view, MaskedTable):
                    self._plan_masked(view, frame)
                else:
                    self._plan_view(view, frame)

    def _plan_view(self, view: ViewDefinition, frame: Callable[[str], DataFrame]) -> None:
        if view.name in self._path:
            read = " reads ".join(str(name) for name in [*self._path[self._path.index(view.name) :], view.name])
            raise SqlError(f"view {view.name.name!r} reads itself: {read}")
        if len(self._path) >= DEEPEST:
            raise LimitExceeded(
                f"view {view.name.name!r} lies in {DEEPEST} others; expected at most {DEEPEST} within each other"
            )
        if len(self._definitions) >= MOST_VIEWS:
            raise LimitExceeded(f"the statement reads more than {MOST_VIEWS} views; expected at most {MOST_VIEWS}")
        self._path.append(view.name)
        try:
            planned = frame(view.sql)
        except (SqlError, NotFound) as exc:
            raise type(exc)(f"view {view.name.name!r}: {exc}") from exc
        finally:
            self._path.pop()
        self._definitions[view.name] = view
        self._tables[view.name] = planned.into_view()

    def _plan_masked(self, table: MaskedTable, frame: Callable[[str], DataFrame]) -> None:
        before, self._masking = self._masking, table.name
        try:
            planned = frame(table.sql)
        except (SqlError, NotFound) as exc:
            self._check_masks(table, frame)
            raise Refused(f"table {table.name.name!r} cannot be planned with its masks; each of them can") from exc
        finally:
            self._masking = before
        casts = table.casts(pa.schema(planned.schema()))
        if casts:
            columns = {name: col(quote_parts(name)) for name in planned.schema().names}
            planned = planned.select(
                *(column.cast(casts[name]).alias(name) if name in casts else column for name, column in columns.items())
            )
        self.masked.add(table.name)
        self._tables[table.name] = planned.into_view()

    def _check_masks(self, table: MaskedTable, frame: Callable[[str], DataFrame]) -> None:
        """Raise the error of the mask that cannot be planned."""
        for column, query in table.probes():
            try:
                frame(query)
            except (SqlError, NotFound) as exc:
                raise table.error(column, exc) from exc
