"""Logical plans of DataFusion: as trees, their bounds, and what DataFusion 55 would answer wrongly."""
