"""Conditions on computed values, computed for the partitions whose values determine them.

A condition is a function of partition values where every column in it is kept by an identity field, or stands in an expression that a
field stores. It is computed once for each combination of these, so that any deterministic condition prunes, and exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lance_flight.errors import LanceFlightError
from lance_flight.model.arrays import contiguous
from lance_flight.model.domains import Mask
from lance_flight.model.schema import NamespaceSchema
from lance_flight.model.spec import Evaluate, PartitionField
from lance_flight.planning.enumeration import Unresolved
from lance_flight.planning.partitions import DictionaryColumn, SpecPartitions
from lance_flight.planning.predicates import Column
from lance_flight.planning.scalar_expressions import (
    ComputedCondition,
    ScalarCall,
    ScalarExpression,
    columns_of_expression,
    expression_sql,
    replaced,
)

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
            self._known[key] = self._computed(condition, version)
        return self._known[key]

    def _computed(self, condition: ComputedCondition, version: SpecPartitions) -> Mask | str:
        fields = dict(_stored_fields(condition, version))
        asked = ScalarCall("not", (condition.expression,)) if condition.negated else condition.expression
        expression = replaced(asked, lambda part: _column_of(part, fields))
        used: dict[Column, tuple[PartitionField, pa.DataType]] = {}
        for column in columns_of_expression(expression):
            found = self._field(column, fields, version)
            if found is None:
                return f"v{version.spec.id} has no partition field that keeps {column}"
            used[column] = found
        if self.evaluate is None or not used:
            return condition.why
        try:
            return self._evaluated(self.evaluate, expression, used, version)
        except Unresolved:
            return "its values are not known yet"
        except (LanceFlightError, pa.ArrowException):
            # The text of the error may hold partition values that are hidden from the reader.
            return "it cannot be computed for the values of the partitions"

    def _field(
        self, column: Column, fields: dict[ScalarExpression, PartitionField], version: SpecPartitions
    ) -> tuple[PartitionField, pa.DataType] | None:
        """Return the field whose value a column is, and the type of the column."""
        for each in fields.values():
            if column == _placeholder(each):
                return each, each.result_type
        number = self.schema.source_ids.get(column.path)
        if number is None:
            return None
        kind = self.schema.sources[number].field.type
        kept = (each for each in version.spec.fields if each.rule.keeps_value and each.source_ids == (number,))
        # One partition value stands for both zeros, and for every NaN.
        return next(((each, kind) for each in kept if not pa.types.is_floating(kind)), None)

    @staticmethod
    def _evaluated(
        evaluate: Evaluate,
        expression: ScalarExpression,
        used: dict[Column, tuple[PartitionField, pa.DataType]],
        version: SpecPartitions,
    ) -> Mask | str:
        coded = [DictionaryColumn.of(version.values.column(each.column)) for each, _ in used.values()]
        points, places = np.unique(np.stack([each.codes for each in coded]), axis=1, return_inverse=True)
        if points.shape[1] > MOST_COMPUTED:
            return f"the partitions have more than {MOST_COMPUTED:,} values to try"
        columns = [
            contiguous(_with_null(each.values).take(pa.array(codes))).cast(kind)
            for each, codes, (_, kind) in zip(coded, points, used.values(), strict=True)
        ]
        names = {column: f"col{place}" for place, column in enumerate(used)}
        values = evaluate(expression_sql(expression, names), columns, pa.bool_())
        found: Mask = np.equal(values.to_numpy(zero_copy_only=False), np.bool_(1))
        return found.take(places.reshape(-1))


def _with_null(values: pa.Array) -> pa.Array:
    return pa.concat_arrays([values, pa.nulls(1, values.type)])


def _stored_fields(
    condition: ComputedCondition, version: SpecPartitions
) -> Iterator[tuple[ScalarExpression, PartitionField]]:
    """Return the fields that store an expression, by the expression."""
    stored = dict(condition.stored)
    for each in version.spec.fields:
        # Floats are stored with one zero and one NaN.
        if each.derivation in stored and not pa.types.is_floating(each.result_type):
            yield stored[each.derivation], each


def _placeholder(each: PartitionField) -> Column:
    return Column("\0", (each.field_id,))


def _column_of(part: ScalarExpression, fields: dict[ScalarExpression, PartitionField]) -> ScalarExpression | None:
    try:
        found = fields.get(part)
    except TypeError:
        return None  # a literal without a hash
    return None if found is None else _placeholder(found)
