"""Short hands for the tables of joins: sides of given fields and partition values, and groups as lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Expression, PartitionSpec
from lance_flight.planning.joins import Groups, NotCopartitioned, Side
from lance_flight.planning.partitions import Partitions, SpecPartitions

from tests.planning.planning_oracle import field

Field = tuple[Any, ...]
"""A rule, and the names of its source columns; for an expression its result type comes last."""


def version(number: int, schema: NamespaceSchema, fields: Sequence[Field], values: Sequence[Any]) -> SpecPartitions:
    """Partitions of one spec version; `values` has one value, or a tuple of them, for each."""
    made = []
    for place, (rule, *names) in enumerate(fields):
        result = names.pop() if isinstance(names[-1], pa.DataType) else None
        sources = [schema.ids[name] for name in names]
        kinds = [schema.column(source).type for source in sources]  # type: ignore[union-attr]
        kind = result or rule.result_type(kinds)
        called = "_".join(["custom" if isinstance(rule, Expression) else rule.type, *names])
        made.append(field(f"{called}_{place}", rule, *sources, result=kind))
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    columns = {each.column: pa.array([row[i] for row in rows], each.result_type) for i, each in enumerate(made)}
    return SpecPartitions(spec=PartitionSpec(id=number, fields=tuple(made)), values=pa.table(columns))


def side(
    name: str,
    columns: Mapping[str, pa.DataType],
    *versions: tuple[Sequence[Field], Sequence[Any]],
    keys: Sequence[str] = ("k",),
) -> Side:
    """A scan of all tables of its versions v1, v2 …"""
    schema = NamespaceSchema.assign(pa.schema(dict(columns)))
    made = [version(number, schema, fields, values) for number, (fields, values) in enumerate(versions, 1)]
    return of(name, schema, made, [schema.ids[key] for key in keys])


def of(name: str, schema: NamespaceSchema, versions: Sequence[SpecPartitions], keys: Sequence[int]) -> Side:
    """A scan of all tables of these versions."""
    return Side(
        name=name,
        schema=schema,
        partitions=Partitions.together(versions),
        kept=tuple(np.arange(len(each), dtype=np.int64) for each in versions),
        keys=tuple(keys),
    )


def listed(found: Groups | NotCopartitioned) -> dict[tuple[Any, ...], list[Any]]:
    """The rows of each side by the values of their group; those of several versions as a list of lists."""
    assert isinstance(found, Groups), found
    shown = {each.values: [_rows(versions) for versions in each.rows] for each in found.groups}
    assert len(shown) == len(found.groups)
    return shown


def _rows(versions: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    rows = [some.tolist() for some in versions]
    return rows[0] if len(rows) == 1 else rows
