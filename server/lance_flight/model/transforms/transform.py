"""Interface of rules that compute partition values, and of transforms beyond that; numeric columns as NumPy arrays."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from lance_flight.model.domains import Domain
from lance_flight.model.hashing import hash_class


class Nulls(Enum):
    """Source columns that are NULL where the partition value is NULL."""

    OF_ITS_SOURCE = "of its only source, and the other way round"
    OF_ALL_SOURCES = "of all of them, and the other way round"
    UNKNOWN = "of none"


class Rule:
    """Interface of pruning and co-partitioning to a rule: to a transform, and to a custom expression too.

    The defaults promise nothing: a rule that overrides none of them prunes by single values alone.
    """

    __slots__ = ()

    type: ClassVar[str]
    """Its name."""

    keeps_value: ClassVar[bool] = False
    """True if the partition value is the value of its only source."""

    monotonic: ClassVar[bool] = False
    """True if the partition value never falls while its only source rises."""

    nulls: ClassVar[Nulls] = Nulls.OF_ITS_SOURCE
    """Meaning of a NULL partition value."""

    needs_values: ClassVar[bool] = False
    """True if it prunes by single values of its sources alone, never by a range of them."""

    date_part: ClassVar[str | None] = None
    """The `date_part` of its source that it is; those of `planning/calendar.py` prune together."""

    family: ClassVar[str]
    """The rules of one family are compared with one another in messages."""

    contrast: ClassVar[str] = "neither determines the other"
    """Why two different rules of its family over the same columns determine nothing in common."""

    def image(self, domain: Domain, stored: pa.DataType) -> Domain | str | None:
        """Return the values, of type `stored`, that it gives to sources within a domain, NULL aside.

        More of them than there are is sound, fewer is not. A text says why they are not known for this domain; None: only
        those of single values are.
        """
        return None

    def comparison_type(self, kinds: Sequence[Sequence[pa.DataType]], result_type: pa.DataType) -> pa.DataType | None:
        """Return the type in which its values over columns of several tables are compared.

        None: equal columns may have values of different types. `kinds` has for each source the type that it has in each table.
        """
        return pa.int64()

    def comparison_obstacle(self, sources: Sequence[pa.DataType], result_type: pa.DataType) -> str | None:
        """Return why values stored as `result_type` do not tell which rows of these source columns may be equal."""
        return None if types.is_integer(result_type) else f"its values are {result_type}; expected an integer"

    def widening_obstacle(self, was: pa.DataType, becomes: pa.DataType) -> str | None:
        """Return why equal values of a source column may get other partition values in a wider type; None: they never do."""
        return None if hash_class(was) == hash_class(becomes) else f"{was} and {becomes} hash differently"

    def from_finer(self, finer: Rule) -> Callable[[pa.Array], pa.Array] | None:
        """Return a function from the values of another rule over the same columns to its own; None: there is none."""
        return None


class Transform(Rule, ABC):
    """A transform of the spec: what it computes, and by `Rule` what that prunes.

    `sources` are the types, `columns` the values, of its source columns. Its fields are the parameters in the JSON of a spec,
    in their order in PARTITIONED BY.
    """

    __slots__ = ()

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Return the names of its parameters, positive integers."""
        return tuple(field.name for field in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else ()

    @property
    def arguments(self) -> Mapping[str, int]:
        """The members beside `type` in the spec's JSON."""
        return {name: getattr(self, name) for name in self.parameters()}

    @classmethod
    def default_name(cls, columns: str) -> str:
        """Return the id of a field of these columns that is given no name."""
        return f"{columns}_{cls.type}"

    def over(self, sources: int) -> Transform:
        """Return the simplest transform that computes the same from so many columns."""
        return self

    def as_sql(self, columns: Sequence[str]) -> str:
        """Return a field of these columns as PARTITIONED BY says it."""
        return f"{self.type}({', '.join([*map(str, self.arguments.values()), *columns])})"

    @abstractmethod
    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        """Return what is wrong with applying this transform to columns of these types."""

    @abstractmethod
    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        """Return the Arrow type of the partition value."""

    @abstractmethod
    def expression(self, sources: Sequence[pa.DataType]) -> str:
        """Return the derived DataFusion expression; `col0`, `col1` … are the source columns."""

    @abstractmethod
    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the partition value of each row."""


def one_source(name: str, sources: Sequence[Any]) -> Iterator[str]:
    """Return what is wrong with so many sources for a transform of one."""
    if len(sources) != 1:
        yield f"{name} takes one source column, got {len(sources)}"


def numbers_of(column: pa.Array) -> np.ndarray:
    """Return the values of a numeric column, with 0 in place of NULL."""
    values: np.ndarray = pc.fill_null(column, pa.scalar(0).cast(column.type)).to_numpy(zero_copy_only=False)
    return values


def canonical_floats(values: np.ndarray, column: pa.Array) -> pa.Array:
    """Return floats in the type and with the NULLs of `column`, with one zero and one NaN."""
    canonical = np.where(np.isnan(values), values.dtype.type(np.nan), np.where(values == 0, 0, values))
    return with_nulls_of(canonical.astype(values.dtype), column)


def with_nulls_of(values: np.ndarray, column: pa.Array) -> pa.Array:
    """Return numbers in the type and with the NULLs of `column`."""
    return pa.array(values, column.type, mask=column.is_null().to_numpy(zero_copy_only=False))
