"""Queries over several rows of parameters: the concatenated answers to each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.engine.query.session import shaped
from lance_flight.engine.statements.kinds import Answer, RowsStatement
from lance_flight.errors import InvalidInput

AnswerTo = Callable[[pa.RecordBatch | None], Answer]
"""Function that plans the answer to one row of parameters, in a session of its own."""


@dataclass(frozen=True, slots=True)
class RowByRow:
    """Concatenated answers to all rows of parameters; each but the first is planned when it is reached."""

    first: Answer
    others: pa.RecordBatch
    answer_to: AnswerTo
    frame: DataFrame | None = None

    @property
    def schema(self) -> pa.Schema:
        return self.first.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.first.batches()
        for place in range(self.others.num_rows):
            yield from shaped(self.answer_to(self.others.slice(place, 1)).batches(), self.schema)


def answer_by_rows(statement: RowsStatement, parameters: pa.RecordBatch | None, answer_to: AnswerTo) -> Answer:
    """Return the answer to all rows of parameters; raise `InvalidInput` for several if the statement is no query."""
    if parameters is None or parameters.num_rows == 1:
        return answer_to(parameters)
    if statement.text is None:
        raise InvalidInput(f"{statement.label} takes one row of parameters, got {parameters.num_rows}")
    return RowByRow(answer_to(parameters.slice(0, 1)), parameters.slice(1), answer_to)
