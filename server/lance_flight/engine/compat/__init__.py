"""Rewrites of texts in which SQL means one thing and DataFusion 55 another, so that it answers rightly."""
