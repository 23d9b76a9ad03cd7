"""Answers of statements that return rows, from a cached plan or a new one, for each row of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from datafusion import DataFrame

from lance_flight.engine.query.names.statement_context import StatementContext
from lance_flight.engine.query.optimising.runner import shape_batches
from lance_flight.engine.query.plan_cache import LONGEST_TEXT, PlanCache
from lance_flight.engine.query.planned_query import PlanKey, PlannedQuery
from lance_flight.engine.query.planning.session import QuerySession
from lance_flight.engine.query.search.arguments import without_vectors
from lance_flight.engine.query.session_factory import Sessions
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
            yield from shape_batches(self.answer_to(self.others.slice(place, 1)).batches(), self.schema)


def answer_by_rows(statement: RowsStatement, parameters: pa.RecordBatch | None, answer_to: AnswerTo) -> Answer:
    """Return the answer to all rows of parameters; raise `InvalidInput` for several if the statement is no query."""
    if parameters is None or parameters.num_rows == 1:
        return answer_to(parameters)
    if statement.text is None:
        raise InvalidInput(f"{statement.label} takes one row of parameters, got {parameters.num_rows}")
    return RowByRow(answer_to(parameters.slice(0, 1)), parameters.slice(1), answer_to)


@dataclass(frozen=True, slots=True)
class Answering:
    """Answers the statements of one server, and caches the plans of their queries."""

    sessions: Sessions
    plans: PlanCache = field(default_factory=PlanCache)

    def answer(
        self,
        statement: RowsStatement,
        context: StatementContext,
        branch: str | None,
        parameters: pa.RecordBatch | None,
    ) -> tuple[QuerySession, Answer]:
        """Plan what a statement returns; `keep` takes the answer back, and the session is the one that it is planned in."""
        key = _plan_key(statement, context, branch, parameters)
        text = statement.text
        kept = None if key is None or text is None else self.plans.take(key, text, context, parameters)
        if kept is not None:
            return kept.session, kept
        target, changing = statement.target
        begun: list[QuerySession] = []

        def answer_to(row: pa.RecordBatch | None) -> Answer:
            session = self.sessions.begin(replace(context, target=target, changing=changing))
            begun.append(session)
            return statement.answer(session, row)

        answered = answer_by_rows(statement, parameters, answer_to)
        if key is not None and isinstance(answered, PlannedQuery):
            # The ticket of a PIVOT has the values that were read for it.
            text = key.text if answered.text == text else without_vectors(answered.text)
            answered = replace(answered, key=replace(key, text=text))
        return begun[0], answered

    def keep(self, answered: Answer, *, is_awaited: bool = False) -> None:
        """Return the plan of a statement to the cache: a finished one, or one that `is_awaited` by its ticket."""
        if isinstance(answered, PlannedQuery) and answered.key is not None:
            self.plans.keep(answered.key, answered, is_awaited=is_awaited)


def _plan_key(
    statement: RowsStatement, context: StatementContext, branch: str | None, parameters: pa.RecordBatch | None
) -> PlanKey | None:
    """Return the plan-cache key of a query; None if its plan cannot be shared: in a transaction, over temporary tables, or row by row."""
    text = statement.text
    is_shared = context.transaction is None and not context.access.own
    is_one = parameters is None or parameters.num_rows == 1
    if text is None or not (is_shared and is_one) or len(text) > LONGEST_TEXT:
        return None
    return PlanKey(without_vectors(text), context.db_schema, branch, context.execution, context.access, context.pool)
