"""Execution environment of statements: client sessions, transactions, admission, limits, cancellation and maintenance, independent of SQL."""
