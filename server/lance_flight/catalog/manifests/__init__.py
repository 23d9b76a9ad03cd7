"""`__manifest`: snapshots of it, and commits of its rows."""
