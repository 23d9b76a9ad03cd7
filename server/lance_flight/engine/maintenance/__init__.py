"""Maintenance that a server does by itself: which table is next, and the thread that works on it."""
