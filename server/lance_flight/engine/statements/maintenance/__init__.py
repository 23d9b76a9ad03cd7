"""Statements that keep a table in shape, and return what they did as rows."""
