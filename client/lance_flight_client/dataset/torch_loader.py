"""Loaders of PyTorch, which is imported with this module and by nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import torch
from lance_flight.errors import InvalidInput
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from lance_flight_client.dataset.loading import Loader, arrays


def tensors(batch: pa.RecordBatch) -> dict[str, torch.Tensor]:
    """Return the columns of a batch as tensors, by name."""
    return {name: torch.from_numpy(values) for name, values in arrays(batch).items()}


class TorchLoader(IterableDataset):
    """Batches of a dataset for one rank, read by its own workers (`Dataset.to_torch`).

    It is iterated as it is, without a `DataLoader`: it makes one for its workers.
    """

    def __init__(self, loader: Loader, collate: Callable[[pa.RecordBatch], Any]) -> None:
        super().__init__()
        self._loader, self._collate = loader, collate

    def __len__(self) -> int:
        """Return how many batches an epoch of this rank has."""
        return len(self._loader)

    def state(self) -> dict[str, Any]:
        """Return the position after the batch that was delivered last, as values of JSON: what `resume` takes."""
        return self._loader.state()

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self._loader.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is None:
            return self._epoch()
        if info.num_workers != self._loader.layout.workers:
            raise InvalidInput(
                f"a DataLoader has {info.num_workers} workers for a loader of {self._loader.layout.workers}, and each would read"
                " all rows; say workers= to to_torch, and iterate over its result"
            )
        return map(self._collate, self._loader.worker_batches(info.id))

    def _epoch(self) -> Iterator[Any]:
        self._loader.begin()
        if self._loader.layout.workers:
            # Lance does not survive a fork.
            batches = iter(
                DataLoader(
                    self,
                    batch_size=None,
                    num_workers=self._loader.layout.workers,
                    multiprocessing_context="spawn",
                )
            )
        else:
            batches = map(self._collate, self._loader.worker_batches(0))
        self._loader.began()
        for batch in batches:
            self._loader.advance()
            yield batch
        self._loader.finish()


def torch_loader(loader: Loader, collate: Callable[[pa.RecordBatch], Any] | None) -> TorchLoader:
    """Return the loader of PyTorch; without `collate` its batches are tensors."""
    return TorchLoader(loader, collate or tensors)
