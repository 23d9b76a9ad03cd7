"""Context of one partition table from the manifest: the columns of its namespace, and the values that all rows share.

Small and pickled with the work that reads the table, in whatever process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lance_flight.model.schema import NamespaceSchema


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
