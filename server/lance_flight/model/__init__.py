"""The spec as values: pure, no I/O."""
