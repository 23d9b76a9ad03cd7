"""Query processing: resolution of tables at versions, pruning of scans, planning, and streaming of rows."""
