"""Changes of tables: rows, columns, partitions and indices, each in one commit or within a transaction."""
