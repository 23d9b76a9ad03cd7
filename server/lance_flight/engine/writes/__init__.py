"""What changes tables: rows, columns, partitions and indices, each carried out in one commit or within a transaction."""
