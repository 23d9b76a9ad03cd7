"""Meaning of the names in a statement: which tables, at which versions, seen by whom."""
