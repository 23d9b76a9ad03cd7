"""`identity`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lance_flight.model.domains import Domain
from lance_flight.model.hashing import hash_class
from lance_flight.model.key_types import common_type, keeps
from lance_flight.model.transforms.transform import Transform, canonical_floats, numbers_of, one_source


@dataclass(frozen=True, slots=True)
class Identity(Transform):
    """The source value, unmodified (floats: −0.0 counts as 0.0 and every NaN as one)."""

    type: ClassVar[str] = "identity"
    family: ClassVar[str] = "identity"
    keeps_value: ClassVar[bool] = True
    monotonic: ClassVar[bool] = True

    @classmethod
    def default_name(cls, columns: str) -> str:
        return columns

    def as_sql(self, columns: Sequence[str]) -> str:
        return columns[0]

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        yield from one_source(self.type, sources)
        for source in sources:
            if pa.types.is_nested(source) or pa.types.is_null(source) or hash_class(source) is None:
                yield f"identity of a {source} column; expected a number, string, binary, boolean, date or time"

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        (source,) = sources
        return source.value_type if pa.types.is_dictionary(source) else source

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        return "col0"

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        (column,) = columns
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_floating(column.type):
            return canonical_floats(numbers_of(column), column)
        return column

    def image(self, domain: Domain, stored: pa.DataType) -> Domain | str | None:
        return domain

    def comparison_type(self, kinds: Sequence[Sequence[pa.DataType]], result_type: pa.DataType) -> pa.DataType | None:
        return common_type(kinds[0])

    def comparison_obstacle(self, sources: Sequence[pa.DataType], result_type: pa.DataType) -> str | None:
        kept = keeps(result_type, sources[0])
        return None if kept else f"its values are {result_type}, those of the column {sources[0]}"
