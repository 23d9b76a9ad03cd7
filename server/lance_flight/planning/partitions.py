"""The partition tables of all spec versions as columns of codes, and those that remain where the values of a field are few.

Fields that several versions have are one column for all of them: a namespace that evolved is not pruned once for each.

Where values are few, transforms and conditions are computed for every combination of them. This is how bucket, multi_bucket
and custom expressions prune, and what makes several fields over one column prune together: a partition stays when all its values come
from one combination.

A condition is a function of partition values where every column in it is kept by an identity field, or stands in an expression that a
field stores. It is computed once for each combination of these, so that any deterministic condition prunes, and exactly.

The year, month, day and hour fields of one column are taken together, against a range and date parts. The days of a range fall into at most six stretches (the first day, the rest of the first year, the common and the
leap years between, the last year up to its last day, the last day), and a stretch is at most a year of days. So
any range costs the same, and what is left is exact: a partition stays when some instant of it is in the range.

A range of a zone is that from its earliest to its latest local time: hours that clocks leave out in between lie in it, too, but no
partition has them for its values alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.errors import LanceFlightError
from lance_flight.model.arrow_types import contiguous
from lance_flight.model.domains import PART_ORDER, Domain, Mask, Ordering, plain
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate, Expression, PartitionField, PartitionSpec
from lance_flight.model.zones import UTC, zone_of
from lance_flight.planning.predicates import (
    Column,
    ComputedCondition,
    ScalarCall,
    ScalarExpression,
    columns_of_expression,
    expression_sql,
    replace_parts,
)

FEW_VALUES = 1_000
"""So many are looked up one by one, which takes less time than to call Arrow."""


@dataclass(frozen=True)
class DictionaryColumn:
    """A partition column: its distinct values, none of them NULL, and for each row a code into them.

    The code of NULL is the number of values.
    """

    values: pa.Array
    codes: npt.NDArray[np.intp]

    @classmethod
    def of(cls, column: pa.ChunkedArray | pa.Array) -> DictionaryColumn:
        """Encode a column."""
        encoded = plain(contiguous(column)).dictionary_encode()
        values = encoded.dictionary
        codes = encoded.indices.fill_null(len(values)).to_numpy().astype(np.intp)
        return cls(values, codes)

    @property
    def null(self) -> int:
        """The code of NULL."""
        return len(self.values)

    def rows(self, accepted: Mask, *, null: bool) -> Mask:
        """Return the rows whose value is accepted, given a flag for each distinct value and one for NULL."""
        return self.among(np.flatnonzero(np.append(accepted, np.bool_(null))))

    def among(self, codes: npt.NDArray[np.intp]) -> Mask:
        """Return the rows with one of these codes; −1 is no row's."""
        if len(codes) == 1:
            same: Mask = np.equal(self.codes, codes[0])
            return same
        flags = np.zeros(self.null + 2, np.bool_)
        flags[codes] = True
        return flags.take(self.codes)

    def find(self, wanted: pa.Array) -> npt.NDArray[np.intp]:
        """Return the code of each wanted value (NULL included), −1 for those that no row has."""
        wanted = plain(wanted)
        if len(wanted) <= FEW_VALUES and self._by_value and wanted.type == self.values.type:
            return np.array([self._by_value.get(value, -1) for value in wanted.to_pylist()], np.intp)
        # The column may have been widened since: a stored value fits the wider type, not always the reverse.
        stored = self.values.cast(wanted.type)
        present = np.flatnonzero(pc.is_in(stored, value_set=wanted.drop_null()).to_numpy(zero_copy_only=False))
        places = pc.index_in(wanted, value_set=stored.take(pa.array(present)))
        places_of = places.fill_null(-1).to_numpy()
        codes = np.where(places_of < 0, -1, np.append(present, -1)[places_of])
        return np.where(wanted.is_null().to_numpy(zero_copy_only=False), self.null, codes)

    @cached_property
    def _by_value(self) -> Mapping[Any, int]:
        """The codes by value, NULL included, for few values of a type that Python compares as Arrow does; else none."""
        kind = self.values.type
        if len(self.values) > FEW_VALUES or not (pa.types.is_integer(kind) or pa.types.is_string(kind)):
            return {}
        return {value: code for code, value in enumerate([*self.values.to_pylist(), None])}

    @cached_property
    def numbers(self) -> npt.NDArray[np.int32]:
        """Each row's value, for an integer column; some other number for NULL."""
        known = np.append(self.values.to_numpy(), 0).astype(np.int32)
        return known.take(self.codes)

    @cached_property
    def is_null(self) -> Mask:
        """A mask of the rows that are NULL."""
        return np.equal(self.codes, self.null)


@dataclass(frozen=True, kw_only=True, eq=False)
class SpecPartitions:
    """The partition tables of one spec version: one row of `values` each, one column for each partition field.

    A column is named `PartitionField.column` and is of exactly `result_type`; NULL means that the value is NULL. Fields that
    are `doubtful` are not in `spec`: rows may lie under other values than theirs.
    """

    spec: PartitionSpec
    values: pa.Table | pa.RecordBatch
    doubtful: tuple[PartitionField, ...] = ()

    def __len__(self) -> int:
        rows: int = self.values.num_rows
        return rows


@dataclass(frozen=True, eq=False)
class Component:
    """Fields that share source columns with one another and with no other field, in all `versions` that have just these.

    Its rows are those of the first version, then those of the next.
    """

    fields: tuple[PartitionField, ...]
    versions: Sequence[SpecPartitions]

    def __len__(self) -> int:
        return sum(map(len, self.versions))

    @cached_property
    def sources(self) -> frozenset[int]:
        """The source columns of the fields."""
        return frozenset(number for field in self.fields for number in field.source_ids)

    @cached_property
    def _coded(self) -> dict[str, DictionaryColumn]:
        return {}

    def column_of(self, field: PartitionField) -> DictionaryColumn:
        """Return the column of a field."""
        if field.column not in self._coded:
            columns = [version.values.column(field.column) for version in self.versions]
            self._coded[field.column] = DictionaryColumn.of(columns[0] if len(columns) == 1 else _join_chunks(columns))
        return self._coded[field.column]


class Part(NamedTuple):
    """Slice of the rows of a component that belong to a spec version."""

    component: Component
    rows: slice


@dataclass(frozen=True, eq=False)
class Partitions:
    """The partition tables of a namespace: its spec versions, and the parts that each has in their components.

    Derived arrays are kept: use one object for as long as the snapshot lives.
    """

    versions: tuple[SpecPartitions, ...]
    parts: tuple[tuple[Part, ...], ...]

    @classmethod
    def together(cls, versions: Sequence[SpecPartitions]) -> Partitions:
        """Return the partitions of one namespace, where the equal fields of several specs are one column."""
        having: dict[tuple[PartitionField, ...], list[SpecPartitions]] = defaultdict(list)
        starts: list[dict[tuple[PartitionField, ...], int]] = []
        for version in versions:
            starts.append({fields: sum(map(len, having[fields])) for fields in components(version.spec)})
            for fields in starts[-1]:
                having[fields].append(version)
        by_fields = {fields: Component(fields, tuple(some)) for fields, some in having.items()}
        return cls(
            tuple(versions),
            tuple(
                tuple(Part(by_fields[fields], slice(start, start + len(version))) for fields, start in mine.items())
                for version, mine in zip(versions, starts, strict=True)
            ),
        )

    @classmethod
    def apart(cls, versions: Sequence[SpecPartitions]) -> Partitions:
        """Return partitions whose versions are unrelated to one another."""
        return cls(tuple(versions), tuple(part for version in versions for part in cls.together([version]).parts))

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """The components of all versions."""
        return tuple(dict.fromkeys(part.component for parts in self.parts for part in parts))


def components(spec: PartitionSpec) -> tuple[tuple[PartitionField, ...], ...]:
    """Return the fields grouped so that two fields share a source column only within a group."""
    groups: list[tuple[PartitionField, ...]] = []
    for partition_field in spec.fields:
        sources = set(partition_field.source_ids)
        linked = [group for group in groups if any(sources & set(other.source_ids) for other in group)]
        groups = [group for group in groups if group not in linked]
        groups.append((*(other for group in linked for other in group), partition_field))
    return tuple(groups)


def _join_chunks(columns: Sequence[pa.ChunkedArray | pa.Array]) -> pa.ChunkedArray:
    chunks = [column.chunks if isinstance(column, pa.ChunkedArray) else [column] for column in columns]
    return pa.chunked_array([chunk for some in chunks for chunk in some], columns[0].type)


MAX_COMBINATIONS = 65_536
"""Combinations of source values that are looked at for one branch of a predicate."""


class Unresolved(LanceFlightError):
    """Raised by an `Evaluate`: the values are not known yet, and have been noted for later."""

    code = "unresolved"


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The values that one source column may have: an array without NULL, and whether NULL is one more."""

    values: pa.Array
    nulls: bool

    def __len__(self) -> int:
        return len(self.values) + self.nulls

    def with_null(self) -> pa.Array:
        """Return all of them as one array."""
        return pa.concat_arrays([self.values, pa.nulls(1, self.values.type)]) if self.nulls else self.values


@dataclass(frozen=True, slots=True)
class Sources:
    """Domains that one alternative leaves to each source column; candidates are listed once for all fields."""

    domains: Mapping[int, Domain]
    constrained: frozenset[int]
    _listed: dict[int, Candidates | None] = field(default_factory=dict)

    def candidates(self, number: int) -> Candidates | None:
        """Return the values of a column that has few."""
        if number not in self._listed:
            self._listed[number] = candidates(self.domains[number])
        return self._listed[number]


def candidates(domain: Domain) -> Candidates | None:
    """Return the values of a domain that has few."""
    keys = domain.finite()
    if keys is None:
        return None
    return Candidates(_distinct(domain.order.array(keys), domain.order), domain.nulls)


def stored_values(coded: DictionaryColumn, domain: Domain) -> Candidates:
    """Return the values of `domain` that a column's identity field has."""
    values = coded.values.cast(domain.order.kind)
    known = values.filter(pa.array(domain.accepts(values)))
    return Candidates(_distinct(known, domain.order), domain.nulls and bool(coded.is_null.any()))


def _distinct(values: pa.Array, order: Ordering) -> pa.Array:
    """Return `values` in a layout with `take`, with −0.0 beside 0.0.

    These are equal, but an expression may tell them apart.
    """
    if not order.is_float:
        return plain(values)
    if 0 not in order.keys(values):
        return values
    return pa.concat_arrays([values, pa.array(np.array([-0.0], values.type.to_pandas_dtype()))])


def combinations(sources: Mapping[int, Candidates]) -> dict[int, pa.Array]:
    """Return every combination of the candidates, one column for each source."""
    if len(sources) == 1:
        return {number: some.with_null() for number, some in sources.items()}
    sizes = [len(some) for some in sources.values()]
    places = np.indices(sizes).reshape(len(sizes), -1)
    return {
        number: some.with_null().take(pa.array(index))
        for (number, some), index in zip(sources.items(), places, strict=True)
    }


def count(sources: Sequence[Candidates]) -> int:
    """Return how many combinations there are."""
    return prod(len(some) for some in sources)


@dataclass(slots=True)
class Expressions:
    """The custom expressions of all fields: `ask` notes the points of one, `answer` computes each field once."""

    evaluate: Evaluate | None
    _asked: dict[str, tuple[PartitionField, list[list[pa.Array]]]] = field(default_factory=dict)
    _answers: dict[str, list[pa.Array] | str] = field(default_factory=dict)

    def ask(self, wanted: PartitionField, columns: list[pa.Array]) -> int:
        """Note points, and return their number among those of this field."""
        batches = self._asked.setdefault(wanted.field_id, (wanted, []))[1]
        batches.append(columns)
        return len(batches) - 1

    def answer(self, wanted: PartitionField, number: int) -> pa.Array | str:
        """Return the values at the points noted as `number`, or why there are none."""
        if wanted.field_id not in self._answers:
            self._answers[wanted.field_id] = self._compute(*self._asked[wanted.field_id])
        answer = self._answers[wanted.field_id]
        return answer if isinstance(answer, str) else answer[number]

    def _compute(self, wanted: PartitionField, batches: list[list[pa.Array]]) -> list[pa.Array] | str:
        if self.evaluate is None:
            return f"the expression of {wanted.field_id} cannot be computed here"
        if not isinstance(wanted.rule, Expression):
            raise TypeError(wanted.rule)
        columns = [pa.concat_arrays(parts) for parts in zip(*batches, strict=True)]
        try:
            values = self.evaluate(wanted.rule.sql, columns, wanted.result_type)
        except Unresolved:
            return f"the values of {wanted.field_id} are not known yet"
        except (LanceFlightError, pa.ArrowException) as exc:
            return f"the expression of {wanted.field_id} fails: {exc}"
        ends = np.cumsum([0, *(len(batch[0]) for batch in batches)])
        return [values.slice(start, stop - start) for start, stop in pairwise(ends.tolist())]


def rows_of(columns: Sequence[tuple[DictionaryColumn, pa.Array]]) -> Mask:
    """Return the rows whose values, taken together, are those of one point.

    `columns` pairs each field with its points.
    """
    codes = [coded.find(points) for coded, points in columns]
    if len(codes) == 1:
        return columns[0][0].among(codes[0])
    known = np.logical_and.reduce([all_codes >= 0 for all_codes in codes])
    tuples = np.unique(np.stack([all_codes[known] for all_codes in codes]), axis=1)
    rows = np.logical_and.reduce(
        [coded.among(all_codes) for (coded, _), all_codes in zip(columns, tuples, strict=True)]
    )
    if prod(len(np.unique(all_codes)) for all_codes in tuples) == tuples.shape[1]:
        return rows  # type: ignore[no-any-return]
    return _exactly(rows, [coded for coded, _ in columns], tuples)


def _exactly(rows: Mask, columns: Sequence[DictionaryColumn], tuples: np.typing.NDArray[np.intp]) -> Mask:
    """Return `rows` without those that mix the values of several points."""
    places = np.flatnonzero(rows)
    mine = np.zeros(len(places), np.intp)
    theirs = np.zeros(tuples.shape[1], np.intp)
    for coded, codes in zip(columns, tuples, strict=True):
        both = np.concatenate([mine * (coded.null + 1) + coded.codes[places], theirs * (coded.null + 1) + codes])
        _, numbers = np.unique(both, return_inverse=True)
        mine, theirs = numbers[: len(places)], numbers[len(places) :]
    kept = np.zeros(len(rows), np.bool_)
    kept[places[np.isin(mine, theirs)]] = True
    return kept


MOST_COMPUTED = 100_000
"""Most combinations of partition values that a condition is computed for."""


@dataclass(slots=True, eq=False)
class ComputedConditions:
    """The conditions on computed values of one pruning, each computed once for each spec version."""

    schema: NamespaceSchema
    evaluate: Evaluate | None
    _known: dict[tuple[int, int], Mask | str] = field(default_factory=dict)

    def rows(self, condition: ComputedCondition, version: SpecPartitions) -> Mask | str:
        """Return the partitions of a version all of whose rows fulfil a condition, where the others have none that does; or why that is not known."""
        key = id(condition), version.spec.id
        if key not in self._known:
            self._known[key] = self._compute(condition, version)
        return self._known[key]

    def _compute(self, condition: ComputedCondition, version: SpecPartitions) -> Mask | str:
        fields = dict(_stored_fields(condition, version))
        asked = ScalarCall("not", (condition.expression,)) if condition.negated else condition.expression
        expression = replace_parts(asked, lambda part: _column_of(part, fields))
        used: dict[Column, tuple[PartitionField, pa.DataType]] = {}
        for column in columns_of_expression(expression):
            field = self._field(column, fields, version)
            if field is None:
                return f"v{version.spec.id} has no partition field that keeps {column}"
            used[column] = field
        if self.evaluate is None or not used:
            return condition.why
        try:
            return self._evaluate(self.evaluate, expression, used, version)
        except Unresolved:
            return "its values are not known yet"
        except (LanceFlightError, pa.ArrowException):
            # The text of the error may hold partition values that are hidden from the reader.
            return "it cannot be computed for the values of the partitions"

    def _field(
        self, column: Column, fields: dict[ScalarExpression, PartitionField], version: SpecPartitions
    ) -> tuple[PartitionField, pa.DataType] | None:
        """Return the field whose value a column is, and the type of the column."""
        for partition_field in fields.values():
            if column == _placeholder(partition_field):
                return partition_field, partition_field.result_type
        number = self.schema.source_ids.get(column.path)
        if number is None:
            return None
        kind = self.schema.sources[number].field.type
        kept = (
            partition_field
            for partition_field in version.spec.fields
            if partition_field.rule.keeps_value and partition_field.source_ids == (number,)
        )
        # One partition value stands for both zeros, and for every NaN.
        return next(((partition_field, kind) for partition_field in kept if not pa.types.is_floating(kind)), None)

    @staticmethod
    def _evaluate(
        evaluate: Evaluate,
        expression: ScalarExpression,
        used: dict[Column, tuple[PartitionField, pa.DataType]],
        version: SpecPartitions,
    ) -> Mask | str:
        coded = [
            DictionaryColumn.of(version.values.column(partition_field.column)) for partition_field, _ in used.values()
        ]
        points, places = np.unique(np.stack([column.codes for column in coded]), axis=1, return_inverse=True)
        if points.shape[1] > MOST_COMPUTED:
            return f"the partitions have more than {MOST_COMPUTED:,} values to try"
        columns = [
            contiguous(_with_null(column.values).take(pa.array(codes))).cast(kind)
            for column, codes, (_, kind) in zip(coded, points, used.values(), strict=True)
        ]
        names = {column: f"col{place}" for place, column in enumerate(used)}
        values = evaluate(expression_sql(expression, names), columns, pa.bool_())
        truths: Mask = np.equal(values.to_numpy(zero_copy_only=False), np.bool_(1))
        return truths.take(places.reshape(-1))


def _with_null(values: pa.Array) -> pa.Array:
    return pa.concat_arrays([values, pa.nulls(1, values.type)])


def _stored_fields(
    condition: ComputedCondition, version: SpecPartitions
) -> Iterator[tuple[ScalarExpression, PartitionField]]:
    """Return the fields that store an expression, by the expression."""
    stored = dict(condition.stored)
    for partition_field in version.spec.fields:
        # Floats are stored with one zero and one NaN.
        if partition_field.derivation in stored and not pa.types.is_floating(partition_field.result_type):
            yield stored[partition_field.derivation], partition_field


def _placeholder(partition_field: PartitionField) -> Column:
    return Column("\0", (partition_field.field_id,))


def _column_of(part: ScalarExpression, fields: dict[ScalarExpression, PartitionField]) -> ScalarExpression | None:
    try:
        partition_field = fields.get(part)
    except TypeError:
        return None  # a literal without a hash
    return None if partition_field is None else _placeholder(partition_field)


UNITS = MappingProxyType({"year": 86_400, "month": 86_400, "day": 86_400, "hour": 3_600})
"""The `date_part` of each transform that prunes here, from coarse to fine, and of how many seconds of local time it is made."""

FIRST_YEAR, LAST_YEAR = -32_767, 32_767
"""The years that Arrow's calendar kernels tell apart."""

_SECONDS_PER_DAY = 86_400
_DAYS = 32
_MONTHS = 13
_ALL_HOURS = (0, 23)
_LEAP_CYCLE = 400
_SAMPLE_YEARS = MappingProxyType({False: 2001, True: 2000})

_Days: TypeAlias = npt.NDArray[np.int64]
"""Days since 1970-01-01."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stretch:
    """Days of the years `first` to `last` (of one leapness, unless None), each with the same range of hours."""

    first: int
    last: int
    leap: bool | None = None
    days: _Days
    hours: tuple[int, int] = _ALL_HOURS


class _Span(NamedTuple):
    """Local times from `low` to `high`, `per_day` of them in a day."""

    low: int
    high: int
    per_day: int


def calendar_problem(domain: Domain) -> str | None:
    """Return why the range cannot be expressed by year, month, day and hour, if it cannot."""
    if zone_of(domain.order.kind) is None:
        return f"the zone of {domain.order.kind} is not known here"
    span = _span(domain)
    first, last = (_first_day(year) * span.per_day for year in (FIRST_YEAR, LAST_YEAR + 1))
    return None if span.low < last and span.high >= first else "the range lies beyond the calendar"


def calendar_rows(fields: Mapping[str, DictionaryColumn], domain: Domain) -> Mask:
    """Return the rows whose year, month, day and hour (those that are `fields`) some value of `domain` has.

    Seen are the interval of `domain` and its parts of these four names; nulls are kept as `domain.nulls` says.
    """
    null = np.logical_or.reduce([coded.is_null for coded in fields.values()])
    rows = np.zeros(len(null), np.bool_)
    if not domain.valueless:
        for stretch in _stretches(domain):
            _add(rows, stretch, fields, domain)
        for name in fields.keys() & domain.parts.keys():
            coded = fields[name]
            rows &= coded.rows(domain.parts[name].accepts(coded.values), null=False)
    rows[null] = domain.nulls
    return rows


def _span(domain: Domain) -> _Span:
    """Return the local times of the interval of a domain."""
    step, zone = domain.order.step, zone_of(domain.order.kind)
    per_day = int(_SECONDS_PER_DAY / step) if step < _SECONDS_PER_DAY else 1
    if zone is None or zone is UTC:
        return _Span(domain.low, domain.high, per_day)
    ticks = per_day // _SECONDS_PER_DAY
    return _Span(*zone.local_bounds(domain.low // ticks, domain.high // ticks), _SECONDS_PER_DAY)


def _stretches(domain: Domain) -> Iterator[_Stretch]:
    span = _span(domain)
    per_day = span.per_day
    low = max(span.low, _first_day(FIRST_YEAR) * per_day)
    high = min(span.high, _first_day(LAST_YEAR + 1) * per_day - 1)
    first, last = low // per_day, high // per_day
    from_hour, to_hour = (key % per_day * 24 // per_day for key in (low, high))
    if first == last:
        yield _one_day(first, (from_hour, to_hour))
        return
    yield _one_day(first, (from_hour, 23))
    yield _one_day(last, (0, to_hour))
    if _year(first) == _year(last):
        yield _within_year(first + 1, last)
        return
    yield _within_year(first + 1, _first_day(_year(first) + 1))
    yield _within_year(_first_day(_year(last)), last)
    yield from _whole_years(_year(first) + 1, _year(last) - 1)


def _one_day(day: int, hours: tuple[int, int]) -> _Stretch:
    return _Stretch(first=_year(day), last=_year(day), days=np.array([day]), hours=hours)


def _within_year(start: int, stop: int) -> _Stretch:
    return _Stretch(first=_year(stop - 1), last=_year(stop - 1), days=np.arange(start, stop))


def _whole_years(first: int, last: int) -> Iterator[_Stretch]:
    if first <= last:
        for leap, sample in _SAMPLE_YEARS.items():
            days = np.arange(_first_day(sample), _first_day(sample + 1))
            yield _Stretch(first=first, last=last, leap=leap, days=days)


def _first_day(year: int) -> int:
    return int(np.datetime64(year - 1970, "Y").astype("datetime64[D]").astype(np.int64))


def _year(day: int) -> int:
    return int(np.datetime64(day, "D").astype("datetime64[Y]").astype(np.int64)) + 1970


def _add(rows: Mask, stretch: _Stretch, fields: Mapping[str, DictionaryColumn], domain: Domain) -> None:
    """Add the rows that some instant of `stretch` falls into."""
    hours = np.zeros(24, np.bool_)
    hours[stretch.hours[0] : stretch.hours[1] + 1] = True
    hours &= _allowed_values(domain, "hour", np.arange(24))
    days = _allowed_days(stretch.days, domain)
    if not len(days) or not hours.any():
        return
    years = _of_years(stretch, fields, domain)
    if years is None:
        return
    if "month" in fields or "day" in fields:
        years &= _of_days(days, fields)
    if "hour" in fields and not hours.all():
        years &= hours.take(fields["hour"].numbers, mode="clip")
    rows |= years


def _allowed_values(domain: Domain, name: str, numbers: npt.NDArray[np.int64]) -> Mask:
    part = domain.parts.get(name)
    return np.ones(len(numbers), np.bool_) if part is None else part.accepts(pa.array(numbers, PART_ORDER.kind))


def _allowed_days(days: _Days, domain: Domain) -> _Days:
    for name in ("month", "day"):
        if name in domain.parts:
            days = days[_allowed_values(domain, name, _month(days) if name == "month" else _day(days))]
    return days


def _month(days: _Days) -> _Days:
    months: _Days = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return months % 12 + 1


def _day(days: _Days) -> _Days:
    first: _Days = days.astype("datetime64[D]").astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days - first + 1


def _of_years(stretch: _Stretch, fields: Mapping[str, DictionaryColumn], domain: Domain) -> Mask | None:
    """Return the rows of the years of `stretch`; None where it has no year at all."""
    if "year" in fields:
        rows = fields["year"].numbers
        inside: Mask = (rows >= stretch.first) & (rows <= stretch.last)
        return inside if stretch.leap is None else inside & (_is_leap(rows) == stretch.leap)
    excluded = len(domain.parts["year"].excluded) if "year" in domain.parts else 0
    years = _candidates(stretch, domain, excluded)
    if stretch.leap is not None:
        years = years[_is_leap(years) == stretch.leap]
    if not len(years):
        return None
    return np.ones(len(next(iter(fields.values())).codes), np.bool_)


def _candidates(stretch: _Stretch, domain: Domain, excluded: int) -> npt.NDArray[np.int64]:
    """Return years of `stretch` that `date_part('year')` allows: all, or enough to have both sorts if there are."""
    first, last = stretch.first, stretch.last
    part = domain.parts.get("year")
    if part is not None and part.points is not None:
        years = np.array(sorted(part.points), np.int64)
        return years[(years >= first) & (years <= last)]
    if part is not None:
        first, last = max(first, part.low), min(last, part.high)
    years = np.arange(first, min(last, first + _LEAP_CYCLE + excluded * _LEAP_CYCLE) + 1)
    return years[_allowed_values(domain, "year", years)] if len(years) else years


def _is_leap(years: npt.NDArray[Any]) -> Mask:
    leap: Mask = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    return leap


def _of_days(days: _Days, fields: Mapping[str, DictionaryColumn]) -> Mask:
    """Return the rows with the month and day (those that are fields) of one of `days`."""
    months = _month(days) if "month" in fields else np.zeros(len(days), np.int64)
    numbers = _day(days) if "day" in fields else np.zeros(len(days), np.int64)
    table = np.zeros(_MONTHS * _DAYS, np.bool_)
    table[months * _DAYS + numbers] = True
    places = sum(fields[name].numbers * weight for name, weight in (("month", _DAYS), ("day", 1)) if name in fields)
    return table.take(np.asarray(places), mode="clip")
