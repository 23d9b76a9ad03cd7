"""`vector_search`, `full_text_search` and `hybrid_search` in SQL: the best rows of a table, over all its partitions."""
