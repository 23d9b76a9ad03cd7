"""A training loop of PyTorch over `readings` of a root, run by an interpreter that has it; writes what it saw as JSON."""

from __future__ import annotations

import json
import sys
from itertools import islice
from typing import Any

import lance_flight
import pyarrow as pa
import torch
from lance_flight.errors import InvalidInput
from torch.utils.data import DataLoader, IterableDataset


def ids(batch: pa.RecordBatch) -> list[int]:
    """A collate that a worker is sent."""
    found: list[int] = batch.column("id").to_pylist()
    return found


def main(root: str) -> dict[str, Any]:
    """Read the same table in every way."""
    given: dict[str, Any] = {"shuffle": "rows", "seed": 3, "buffer_rows": 64}
    with lance_flight.dataset(root, "readings", filter="celsius > 10 AND site <> 's3'") as dataset:
        with lance_flight.dataset(root, "readings", columns=["id", "celsius"]) as numbers:
            tensors = list(numbers.to_torch(32))
        ranks = [list(dataset.to_torch(8, collate=ids, rank=rank, world_size=2, **given)) for rank in (0, 1)]
        loader = dataset.to_torch(8, collate=ids, workers=2, **given)
        whole = list(loader)
        after = dataset.to_torch(8, collate=ids, workers=2, **given)
        first = list(islice(after, 3))
        resumed = dataset.to_torch(8, collate=ids, workers=2, resume=json.loads(json.dumps(after.state())), **given)
        alone = dataset.to_torch(8, collate=ids, **given)
        try:
            refused = list(DataLoader(alone, batch_size=None, num_workers=1, multiprocessing_context="spawn"))
        except InvalidInput as exc:
            refused = str(exc)
        return {
            "types": {name: str(value.dtype) for name, value in tensors[0].items()},
            "sum": sum(float(batch["celsius"].sum()) for batch in tensors),
            "sizes": [len(batch["id"]) for batch in tensors],
            "is_iterable": isinstance(alone, IterableDataset) and torch.is_tensor(tensors[0]["id"]),
            "ranks": ranks,
            "whole": whole,
            "first": first,
            "rest": list(resumed),
            "epochs": [list(alone), list(alone)],
            "next": [loader.state()["epoch"], alone.state()["epoch"], len(loader)],
            "refused": refused,
        }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1])))
