"""Queries: names become tables at versions, scans are pruned, plans are made, and their rows are streamed."""
