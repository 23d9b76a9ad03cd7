"""Keeps pandas out of servers: it is installed for Spark's sake, pyarrow imports what is there, and that takes a second."""

raise ImportError("servers run without pandas, which is no dependency of theirs")
