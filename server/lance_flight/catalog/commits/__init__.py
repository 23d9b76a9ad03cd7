"""Rows on their way into partition tables, and the commit that shows them all at once."""
