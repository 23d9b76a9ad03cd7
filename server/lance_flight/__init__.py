"""An Apache Arrow Flight SQL service for Lance Partitioned Namespaces; `dataset` reads their tables without one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance_flight_client.dataset.views import Dataset, dataset

__all__ = ["Dataset", "dataset"]

_MODULES = {"Dataset": "lance_flight_client.dataset.views", "dataset": "lance_flight_client.dataset.views"}
"""Module of each name, which is imported when the name is asked for: it loads Arrow, Lance and DataFusion."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
