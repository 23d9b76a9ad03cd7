"""Execution environment of statements: client sessions, transactions, admission, limits and cancellation, independent of SQL."""
