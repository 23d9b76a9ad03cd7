"""Partition pruning: pure functions over predicates and partition values."""
