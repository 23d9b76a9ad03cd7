"""Fusion of two lists of rows, nearest vectors and best matches, into one by their ranks or their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_flight.catalog.search.search_results import DISTANCE, SCORE
from lance_flight.catalog.tables.scan import ADDRESS_NAMES
from lance_flight.engine.query.search.arguments import Arguments

RANK_CONSTANT = 60.0
"""Constant of reciprocal rank fusion: a row scores 1 / (60 + its rank) in each of its lists (Cormack et al., 2009)."""

TEXT_SCORE = pa.field("_text_score", SCORE.type)
VECTOR_RANK = pa.field("_vector_rank", pa.int32())
TEXT_RANK = pa.field("_text_rank", pa.int32())
FUSED = (SCORE, DISTANCE, VECTOR_RANK, TEXT_SCORE, TEXT_RANK)
"""Columns of a hybrid search: what rows are ordered by, and what they are worth and which they are in each list, NULL outside it."""

MOST_WEIGHT = 1e6
_LISTS = ((DISTANCE, DISTANCE, VECTOR_RANK), (SCORE, TEXT_SCORE, TEXT_RANK))
"""Of each list: what its rows are ordered by, and the names of that and of the ranks in the result."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fusion:
    """Fusion of two lists: `method` gives the worth of rows in one, which is multiplied by its weight and summed up."""

    name: str
    method: Callable[[Numbers], Numbers]
    weights: tuple[float, float] = (1.0, 1.0)

    def fused(self, lists: Sequence[pa.Table], first: int, count: int) -> pa.Table:
        """Return `count` rows after the `first` ones, best first; equal ones in the order of the vectors, and of the texts then.

        The columns of each list have those of `ADDRESS_FIELDS` and its score among them; the result has `FUSED`.
        """
        parts = [self._keyed(number, rows) for number, rows in enumerate(lists)]
        keyed = pa.concat_tables(parts, promote_options="default")
        keyed = keyed.append_column("place", pa.array(np.arange(keyed.num_rows)))
        taken = [field.name for field in FUSED[1:]]
        both = keyed.group_by(list(ADDRESS_NAMES)).aggregate(
            [("worth", "sum"), ("place", "min"), *((name, "max") for name in taken)]
        )
        order = pc.sort_indices(both, [("worth_sum", "descending"), ("place_min", "ascending")])
        chosen = both.take(order[first : first + count])
        rows = pa.concat_tables(
            [rows.drop_columns([score.name]) for rows, (score, *_) in zip(lists, _LISTS, strict=True)]
        )
        rows = rows.take(chosen["place_min"]).append_column(SCORE, chosen["worth_sum"].cast(SCORE.type))
        for field in FUSED[1:]:
            rows = rows.append_column(field, chosen[f"{field.name}_max"].cast(field.type))
        return rows

    def _keyed(self, number: int, rows: pa.Table) -> pa.Table:
        score, named, rank = _LISTS[number]
        values = rows[score.name].to_numpy().astype(np.float64)
        # The best is the greatest.
        worth = self.method(-values if score is DISTANCE else values) * self.weights[number]
        ranks = np.arange(1, rows.num_rows + 1)
        columns = {name: rows[name] for name in ADDRESS_NAMES}
        made = {"worth": worth, named.name: rows[score.name], rank.name: pa.array(ranks, rank.type)}
        lacking = {field.name: pa.nulls(rows.num_rows, field.type) for field in FUSED[1:] if field.name not in made}
        return pa.table({**columns, **made, **lacking}).select(
            [*ADDRESS_NAMES, "worth", *(field.name for field in FUSED[1:])]
        )


def _by_rank(values: Numbers) -> Numbers:
    """Return the reciprocal ranks of a list that is in order."""
    return 1.0 / (RANK_CONSTANT + np.arange(1, len(values) + 1, dtype=np.float64))


def _by_score(values: Numbers) -> Numbers:
    """Return scores between those of the worst of a list, 0, and of the best, 1; values that do not compare are the worst.

    >>> _by_score(np.array([3.0, 2.0, 1.0])).tolist(), _by_score(np.array([7.0])).tolist()
    ([1.0, 0.5, 0.0], [1.0])
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return np.zeros(len(values))
    low, high = known.min(), known.max()
    spread = np.ones(len(values)) if high == low else (values - low) / (high - low)
    return np.where(np.isfinite(values), spread, 0.0)


_METHODS: Mapping[str, Callable[[Numbers], Numbers]] = MappingProxyType({"rrf": _by_rank, "linear": _by_score})


def fusion(arguments: Arguments) -> Fusion:
    """Return the fusion that the arguments of a call ask for."""
    name = (arguments.text("fusion") or next(iter(_METHODS))).lower()
    if name not in _METHODS:
        raise arguments.error("fusion", name, " or ".join(_METHODS))
    weights = arguments.numbers("weights")
    if weights is None:
        return Fusion(name, _METHODS[name])
    if len(weights) != len(_LISTS) or not all(0 <= each <= MOST_WEIGHT for each in weights) or not any(weights):
        raise arguments.error(
            "weights", weights, f"two numbers from 0 to {MOST_WEIGHT:g}, not both 0: of the vectors, and of the texts"
        )
    return Fusion(name, _METHODS[name], (weights[0], weights[1]))
