"""Queries to a server over Flight SQL, whose endpoints any process reads: for datasets and Spark."""
