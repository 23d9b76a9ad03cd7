"""Changes of rows from snapshot to snapshot."""
