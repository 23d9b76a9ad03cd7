"""Reads: what Spark's tasks read of a root by themselves, and what they read through a server."""
