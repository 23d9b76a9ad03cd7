"""`bucket` and `multi_bucket`: they prune by single values of their columns, and are joined by their counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lance_flight.model.hashing import bucket, hash_class, murmur3, murmur3_multi
from lance_flight.model.transforms.transform import Nulls, Rule, Transform, one_source

MAX_BUCKETS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Hashed(Transform):
    """`abs(hash) % num_buckets`."""

    num_buckets: int
    needs_values: ClassVar[bool] = True
    family: ClassVar[str] = "bucket"
    contrast: ClassVar[str] = "neither count divides the other"

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        if not 1 <= self.num_buckets <= MAX_BUCKETS:
            yield f"num_buckets is {self.num_buckets}; expected 1 to {MAX_BUCKETS}"
        for source in sources:
            if hash_class(source) is None:
                yield f"{self.type} of a {source} column; expected a type that murmur3 is defined for"

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        return pa.int32()

    def from_finer(self, finer: Rule) -> Callable[[pa.Array], pa.Array] | None:
        if not isinstance(finer, _Hashed) or finer.num_buckets % self.num_buckets:
            return None
        return lambda values: bucket(values.cast(pa.int32()), self.num_buckets)


class Bucket(_Hashed):
    """`abs(murmur3(col0)) % N`."""

    type: ClassVar[str] = "bucket"

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        yield from one_source(self.type, sources)
        yield from _Hashed.problems(self, sources)

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        return f"abs(murmur3(col0)) % {self.num_buckets}"

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        return bucket(murmur3(columns[0]), self.num_buckets)


class MultiBucket(_Hashed):
    """`abs(murmur3_multi(col0, col1, …)) % N`; NULLs are left out of the hash."""

    type: ClassVar[str] = "multi_bucket"
    nulls: ClassVar[Nulls] = Nulls.OF_ALL_SOURCES

    def problems(self, sources: Sequence[pa.DataType]) -> Iterator[str]:
        if not sources:
            yield f"{self.type} takes at least one source column"
        yield from _Hashed.problems(self, sources)

    def expression(self, sources: Sequence[pa.DataType]) -> str:
        columns = ", ".join(f"col{i}" for i in range(len(sources)))
        return f"abs(murmur3_multi({columns})) % {self.num_buckets}"

    def apply(self, columns: Sequence[pa.Array]) -> pa.Array:
        return bucket(murmur3_multi(columns), self.num_buckets)

    def over(self, sources: int) -> Transform:
        return Bucket(self.num_buckets) if sources == 1 else self  # the hash of one column is the same
