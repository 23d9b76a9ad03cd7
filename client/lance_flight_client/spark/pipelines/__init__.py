"""Pipelines: jobs in files or flags, and the program that runs them."""
