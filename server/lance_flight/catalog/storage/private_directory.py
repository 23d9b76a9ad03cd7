"""The private directory of a root, or of a table: what lies there is for this library, and no stock reader needs it."""

from __future__ import annotations

PRIVATE = ".lance-flight"
