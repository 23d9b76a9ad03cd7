"""Clients of a lance-flight server: ADBC with a little help, and printing."""
