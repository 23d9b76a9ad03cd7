"""What came and went from snapshot to snapshot."""
