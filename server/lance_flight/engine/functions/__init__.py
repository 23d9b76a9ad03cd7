"""Functions of SQL: the table of those that the service adds to DataFusion's, and what each becomes or computes."""
