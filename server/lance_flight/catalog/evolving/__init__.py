"""New columns and types for tables that are there."""
