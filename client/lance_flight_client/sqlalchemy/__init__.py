"""SQLAlchemy dialect `lance_flight://` over ADBC's Flight SQL driver (extra `sqlalchemy`)."""

from lance_flight_client.sqlalchemy.dialect import LanceFlightDialect
from lance_flight_client.sqlalchemy.notices import LanceFlightWarning
from lance_flight_client.sqlalchemy.types import NamedType, Struct, Timestamp

__all__ = ["LanceFlightDialect", "LanceFlightWarning", "NamedType", "Struct", "Timestamp"]
