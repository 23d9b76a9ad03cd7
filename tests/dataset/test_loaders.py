"""Loaders over a root: what its filter leaves, of evolved tables, of versions that vacuum would remove. No PyTorch runs here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance_flight
import pytest
from lance_flight_client.dataset.loading import Loader

from tests.dataset.roots import overtake


def loader(dataset: lance_flight.Dataset, rank: int = 0, **given: Any) -> Loader:
    """The loader of a rank of two, with two workers each."""
    return dataset.loader(8, **{"rank": rank, "world_size": 2, "workers": 2, "seed": 5, **given})


def ids(made: Loader) -> list[int]:
    return [n for turn in range(made.shards) for batch in made.worker_batches(turn) for n in batch["id"].to_pylist()]


@pytest.mark.sample(5)
@pytest.mark.parametrize("shuffle", [None, "partition", "rows"])
@pytest.mark.parametrize(
    "filter", [None, "site = 's1'", "celsius > 20 AND site <> 's2'", "murmur3(id) % 2 = 0", "more IS NULL", "1 = 0"]
)
def test_all_ranks_together_read_what_the_filter_leaves(
    root: Path, change: Callable[..., None], filter: str | None, shuffle: str | None
) -> None:
    change(
        "ALTER TABLE readings ADD COLUMN more INT",
        "ALTER TABLE readings SET PARTITIONED BY (bucket(2, id))",
        "INSERT INTO readings SELECT value, 's1', value, 1 FROM generate_series(500, 520)",
    )
    with lance_flight.dataset(root, "readings", filter=filter, columns=["id", "more"]) as dataset:
        expected = sorted(dataset.to_table()["id"].to_pylist())
        of_ranks = [ids(loader(dataset, rank, shuffle=shuffle)) for rank in (0, 1)]
        assert sorted(of_ranks[0] + of_ranks[1]) == expected
        assert abs(len(of_ranks[0]) - len(of_ranks[1])) <= 2
        again = lance_flight.dataset(root, "readings", snapshot=dataset.version, filter=filter, columns=["id", "more"])
        assert [ids(loader(again, rank, shuffle=shuffle)) for rank in (0, 1)] == of_ranks


def test_a_loader_keeps_its_version(root: Path, change: Callable[..., None]) -> None:
    with lance_flight.dataset(root, "readings") as dataset:
        expected = sorted(dataset.to_table()["id"].to_pylist())
        made = loader(dataset, world_size=1)
    del dataset
    change("DELETE FROM readings WHERE id > 10")
    overtake(root)
    assert sorted(ids(made)) == expected
