"""Category of the dialect's warnings."""

from __future__ import annotations


class LanceFlightWarning(UserWarning):
    """Warning of something that SQLAlchemy offers and the server does not do."""
