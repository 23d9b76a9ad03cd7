"""What the names of a statement stand for: which tables, at which versions, seen by whom."""
