"""Reads through the connector: relations, what is pushed into them, and the portions that tasks read."""
