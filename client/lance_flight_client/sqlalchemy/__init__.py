"""SQLAlchemy dialect `lance_flight://` over ADBC's Flight SQL driver (extra `sqlalchemy`)."""

from lance_flight_client.sqlalchemy.compiler import LanceFlightWarning, NamedType, Struct, Timestamp
from lance_flight_client.sqlalchemy.dialect import LanceFlightDialect

__all__ = ["LanceFlightDialect", "LanceFlightWarning", "NamedType", "Struct", "Timestamp"]
