"""Statements of clients in the SQL that DataFusion plans: all rewrites in their order, parameters, and its errors in the words of the client."""
