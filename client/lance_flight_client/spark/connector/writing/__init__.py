"""Writes through the connector: statements as one commit each, over a root and through a server."""
