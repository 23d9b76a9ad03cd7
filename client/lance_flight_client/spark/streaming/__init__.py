"""Streams: the rows that are added to a table, batch by batch, and batches that are written to one, each once."""
