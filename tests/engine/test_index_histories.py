"""After any changes and any maintenance, a condition and a search find the rows that they find without indices."""

from __future__ import annotations

import random

import pytest

from tests.engine.database import Database
from tests.engine.index_histories import CONDITIONS, History
from tests.selection import IS_FULL

pytestmark = pytest.mark.slow  # a long property

STEPS, SAMPLE, LAST = (14, 12, len(CONDITIONS)) if IS_FULL else (8, 8, 40)
"""Steps, and conditions that are checked after each of them and after the last one."""
SEEDS = range(25 if IS_FULL else 1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("has_stable_ids", [True, False], ids=["stable ids", "addresses"])
@pytest.mark.parametrize("has_parts", [True, False], ids=["partitions", "plain"])
def test_indices_answer_what_a_scan_answers(
    database: Database, seed: int, *, has_stable_ids: bool, has_parts: bool
) -> None:
    chance = random.Random(f"{seed} {has_stable_ids} {has_parts}")  # noqa: S311 - a seed
    history = History(database, chance, f"t{seed}{has_stable_ids:d}{has_parts:d}", has_parts, has_stable_ids)
    history.begin()
    for _ in range(STEPS):
        on = history.step()
        history.check(on, chance.sample(CONDITIONS, SAMPLE))
    for name in [history.name, *history.branches]:
        history.check(name, chance.sample(CONDITIONS, LAST))
