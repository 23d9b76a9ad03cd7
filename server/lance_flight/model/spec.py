"""Partition specs and partition fields, and their JSON.

Spec: Partition Spec, Partition Field Schema, Appendix A. Parsing names every problem at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from lance_flight.errors import SchemaError, SpecError, SqlError
from lance_flight.model.arrow_json import type_from_json, type_to_json
from lance_flight.model.hashing import common_type, value_type
from lance_flight.model.json_documents import read_json
from lance_flight.model.naming import partition_column
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.transforms import TRANSFORMS, Nulls, Rule, Transform
from lance_flight.model.zones import is_utc

SPEC_KEY = "partition_spec_v"

Evaluate = Callable[[str, Sequence[pa.Array], pa.DataType], pa.Array]
"""Computes a custom expression: its text, the columns col0, col1 … and the result type → one value per row."""


@dataclass(frozen=True, slots=True)
class Expression(Rule):
    """A custom partition expression: DataFusion SQL over col0, col1 … (spec: Partition Expression).

    `type` is what it is called where a transform has a name.
    """

    sql: str
    type: ClassVar[str] = "expression"
    nulls: ClassVar[Nulls] = Nulls.UNKNOWN
    needs_values: ClassVar[bool] = True
    family: ClassVar[str] = "expression"
    contrast: ClassVar[str] = "the expressions differ"

    def as_sql(self, columns: Sequence[str]) -> str:
        quoted = self.sql.replace("'", "''")
        return f"expr('{quoted}', {', '.join(columns)})"

    def comparison_type(self, kinds: Sequence[Sequence[pa.DataType]], result_type: pa.DataType) -> pa.DataType | None:
        return common_type([result_type]) if all(len(set(some)) == 1 for some in kinds) else None

    def comparison_obstacle(self, sources: Sequence[pa.DataType], result_type: pa.DataType) -> str | None:
        if any(pa.types.is_floating(value_type(kind)) for kind in sources):
            return "an expression may tell 0.0 from −0.0, and one NaN from another"
        return None if common_type([result_type]) else f"values of {result_type} are not compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """One level of a partition spec: what to compute from which columns, and the type of the value."""

    field_id: str
    source_ids: tuple[int, ...]
    rule: Transform | Expression
    result_type: pa.DataType

    @property
    def column(self) -> str:
        """This field's column in `__manifest`."""
        return partition_column(self.field_id)

    @property
    def derivation(self) -> tuple[tuple[int, ...], Transform | Expression]:
        """Return the key that two equal fields share: source ids and rule (spec: Field ID Reuse)."""
        return self.source_ids, self.rule

    @classmethod
    def from_json(cls, value: Any) -> PartitionField:
        """Parse one field object; `SpecError` lists everything wrong with it."""
        if not isinstance(value, Mapping):
            raise SpecError("field", [f"{value!r} is not an object"])
        problems: list[str] = []
        field_id = value.get("field_id")
        if not isinstance(field_id, str) or not field_id:
            problems.append(f"field_id is {field_id!r}; expected a non-empty string")
        source_ids = value.get("source_ids")
        if not _is_id_list(source_ids):
            problems.append(f"source_ids is {source_ids!r}; expected a non-empty array of field ids (integers ≥ 0)")
        rule = _rule_from_json(value, problems)
        result_type = _result_type(value, problems)
        if problems or rule is None or result_type is None:
            raise SpecError("field", problems)
        return cls(field_id=str(field_id), source_ids=tuple(source_ids or ()), rule=rule, result_type=result_type)

    def to_json(self) -> dict[str, Any]:
        """Return the field object, members in the order of the spec's examples."""
        rule = self.rule
        how: dict[str, Any] = (
            {"expression": rule.sql}
            if isinstance(rule, Expression)
            else {"transform": {"type": rule.type, **rule.arguments}}
        )
        return {
            "field_id": self.field_id,
            "source_ids": list(self.source_ids),
            **how,
            "result_type": type_to_json(self.result_type),
        }

    def apply(self, columns: Sequence[pa.Array], evaluate: Evaluate) -> pa.Array:
        """Return the partition value of each row, of exactly `result_type`; `columns` in `source_ids` order."""
        if isinstance(self.rule, Expression):
            try:
                values = evaluate(self.rule.sql, columns, self.result_type)
            except SqlError as exc:
                raise SpecError(f"partition field {self.field_id!r}", [str(exc)]) from exc
        else:
            values = self.rule.apply(columns)
        return values if values.type == self.result_type else values.cast(self.result_type)

    def problems(self, schema: NamespaceSchema) -> Iterator[str]:
        """Return what keeps this field from entering a new spec over `schema`."""
        missing = [number for number in self.source_ids if schema.column(number) is None]
        for number in missing:
            inside = f": {schema.paths[number][0]} is an element of a list or map" if number in schema.paths else ""
            yield f"source id {number} is no column of the schema, nor a field inside its structs{inside}"
        if missing or isinstance(self.rule, Expression):
            return
        sources = self.source_types(schema)
        wrong = list(self.rule.problems(sources))
        yield from wrong
        if not wrong and self.rule.result_type(sources) != self.result_type:
            yield f"result_type is {self.result_type}; {self.rule.type} of {sources[0]} gives {self.rule.result_type(sources)}"

    def problems_of_change(self, before: NamespaceSchema, after: NamespaceSchema) -> Iterator[str]:
        """Yield obstacles to this change of its source columns' types: rows of before and after must not be told apart.

        Expressions are not checked here, but where they can be evaluated.
        """
        old, new = self.source_types(before), self.source_types(after)
        if old == new or any(schema.column(n) is None for schema in (before, after) for n in self.source_ids):
            return
        if isinstance(self.rule, Expression):
            return
        for was, becomes in zip(old, new, strict=True):
            obstacle = None if was == becomes else self.rule.widening_obstacle(was, becomes)
            if obstacle is not None:
                yield obstacle

    def following(self, before: NamespaceSchema, after: NamespaceSchema) -> PartitionField:
        """Return this field with the result type that its transform has where its source columns have changed their types.

        An expression keeps its own, and so does a field of a removed column.
        """
        old, new = self.source_types(before), self.source_types(after)
        if old == new or isinstance(self.rule, Expression) or pa.null() in [*old, *new]:
            return self
        return replace(self, result_type=self.rule.result_type(new))

    def was_computed_otherwise(self, schema: NamespaceSchema) -> bool:
        """Return whether releases before `DERIVED_VALUES` gave it other values: parts in UTC, NULL for a field inside a struct."""
        is_nested = any(len(schema.source_paths.get(n, ())) > 1 for n in self.source_ids)
        is_part = self.rule.date_part is not None
        return is_nested or (is_part and not all(map(is_utc, self.source_types(schema))))

    def source_types(self, schema: NamespaceSchema) -> list[pa.DataType]:
        """Return the types of the source columns; a removed column counts as null type."""
        columns = (schema.column(number) for number in self.source_ids)
        return [pa.null() if column is None else column.type for column in columns]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """One version of the partitioning: its number and its fields, outermost first."""

    id: int
    fields: tuple[PartitionField, ...]

    @property
    def key(self) -> str:
        """The key of this spec in the table metadata of `__manifest`."""
        return f"{SPEC_KEY}{self.id}"

    @classmethod
    def from_json(cls, value: Any, *, key: str | None = None) -> PartitionSpec:
        """Parse a spec (JSON text or object) stored under `key`; `SpecError` lists every problem of every field."""
        if isinstance(value, str):
            try:
                value = read_json(value)
            except ValueError as exc:
                raise SpecError(key or "partition spec", [f"not JSON: {exc}"]) from exc
        if not isinstance(value, Mapping):
            raise SpecError(key or "partition spec", [f"{value!r} is not an object"])
        problems: list[str] = []
        number: Any = value.get("id")
        if not _is_int(number) or number < 1:
            problems.append(f"id is {number!r}; expected an integer ≥ 1")
        elif key is not None and key != f"{SPEC_KEY}{number}":
            problems.append(f"id is {number}; expected the number in its key {key!r}")
        fields = _fields_from_json(value.get("fields"), problems)
        if problems:
            raise SpecError(key or "partition spec", problems)
        return cls(id=int(number), fields=fields)

    def to_json(self) -> dict[str, Any]:
        """Return the spec object."""
        return {"id": self.id, "fields": [field.to_json() for field in self.fields]}

    def to_text(self) -> str:
        """Return the spec as it is stored: compact JSON."""
        return json.dumps(self.to_json(), separators=(",", ":"), ensure_ascii=False)

    def with_stored_types(self, manifest: pa.Schema) -> PartitionSpec:
        """Return this spec with the exact Arrow types of the manifest's columns, which JSON cannot say (decision 9)."""
        known = {field.name: field.type for field in manifest}
        fields = tuple(replace(f, result_type=known.get(f.column, f.result_type)) for f in self.fields)
        return replace(self, fields=fields)

    def check(self, schema: NamespaceSchema, earlier: Sequence[PartitionSpec] = ()) -> None:
        """Refuse a new spec that does not fit `schema` or breaks the rules of field ids (spec: Field ID Reuse)."""
        problems = [f"field {f.field_id!r}: {problem}" for f in self.fields for problem in f.problems(schema)]
        problems += [f"id {self.id} is taken" for old in earlier if old.id == self.id]
        problems += _reuse_problems(self, earlier)
        if problems:
            raise SpecError(f"partition spec v{self.id}", problems)


def specs_from_metadata(metadata: Mapping[str, str]) -> list[PartitionSpec]:
    """Return every `partition_spec_v<N>` of a metadata map, by number; the problems of all of them at once."""
    specs, problems = [], []
    for key, text in metadata.items():
        if _has_number(key):
            try:
                specs.append(PartitionSpec.from_json(text, key=key))
            except SpecError as exc:
                problems += [f"{key}: {problem}" for problem in exc.problems]
    if problems:
        raise SpecError("partition specs", problems)
    return sorted(specs, key=lambda spec: spec.id)


def check_any_spec(keys: Iterable[str]) -> None:
    """Refuse metadata whose keys of specs all have something else in place of the number; `SpecError` names them."""
    named = [key for key in keys if key.startswith(SPEC_KEY)]
    if not any(map(_has_number, named)):
        expected = f"expected {SPEC_KEY}<N>, where N is 1, 2 …"
        raise SpecError("partition specs", [f"key {key!r} has no spec number; {expected}" for key in named])


def _has_number(key: str) -> bool:
    number = key.removeprefix(SPEC_KEY)
    return key.startswith(SPEC_KEY) and number.isascii() and number.isdigit()


def _fields_from_json(value: Any, problems: list[str]) -> tuple[PartitionField, ...]:
    if not isinstance(value, list):
        problems.append(f"fields is {value!r}; expected an array of field objects")
        return ()
    fields: list[PartitionField] = []
    for place, item in enumerate(value):
        try:
            fields.append(PartitionField.from_json(item))
        except SpecError as exc:
            problems += [f"fields[{place}]: {problem}" for problem in exc.problems]
    names = [field.field_id for field in fields]
    problems += [
        f"field_id {name!r} stands {names.count(name)} times" for name in dict.fromkeys(names) if names.count(name) > 1
    ]
    return tuple(fields)


def _rule_from_json(value: Mapping[str, Any], problems: list[str]) -> Transform | Expression | None:
    transform, expression = value.get("transform"), value.get("expression")
    if (transform is None) == (expression is None):
        both = "both" if transform is not None else "neither"
        problems.append(f"exactly one of transform and expression is expected, got {both}")
        return None
    if expression is not None:
        if isinstance(expression, str) and expression.strip():
            return Expression(expression)
        problems.append(f"expression is {expression!r}; expected SQL text over col0, col1 …")
        return None
    return _transform_from_json(transform, problems)


def _transform_from_json(value: Any, problems: list[str]) -> Transform | None:
    kind = value.get("type") if isinstance(value, Mapping) else None
    known = TRANSFORMS.get(kind.lower()) if isinstance(kind, str) else None
    if known is None:
        problems.append(f"transform is {value!r}; expected an object whose type is one of {', '.join(TRANSFORMS)}")
        return None
    names = known.parameters()
    wrong = [name for name in names if not _is_int(value.get(name)) or value[name] < 1]
    problems += [f"{kind} has {name} = {value.get(name)!r}; expected an integer ≥ 1" for name in wrong]
    transform: Transform | None = None if wrong else known(*(value[name] for name in names))
    return transform


def _result_type(value: Mapping[str, Any], problems: list[str]) -> pa.DataType | None:
    if "result_type" not in value:
        problems.append("result_type is missing")
        return None
    try:
        return type_from_json(value["result_type"])
    except SchemaError as exc:
        problems += [f"result_type: {problem}" for problem in exc.problems]
        return None


def _reuse_problems(spec: PartitionSpec, earlier: Sequence[PartitionSpec]) -> Iterator[str]:
    by_name = {field.field_id: field for old in earlier for field in old.fields}
    by_derivation = {field.derivation: field.field_id for field in by_name.values()}
    for field in spec.fields:
        old = by_name.get(field.field_id)
        if old is not None and old.derivation != field.derivation:
            yield f"field_id {field.field_id!r} belongs to another derivation already; a field_id is never reused"
        known = by_derivation.get(field.derivation)
        if known is not None and known != field.field_id:
            yield f"field {field.field_id!r} derives what {known!r} derives; the same field_id must be reused"
        by_derivation.setdefault(field.derivation, field.field_id)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_id_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_int(item) and item >= 0 for item in value)
