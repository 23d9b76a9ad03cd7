"""Statements of this server: their parsing, the privileges they need, and their execution."""
