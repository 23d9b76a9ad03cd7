"""Metadata commands of Flight SQL: tables, columns, types, keys and what the server supports, as results with fixed schemas."""
