"""Pinned views of tables, read by this process or by others: `lance_flight.dataset`. What Spark reads is read by the same portions."""
