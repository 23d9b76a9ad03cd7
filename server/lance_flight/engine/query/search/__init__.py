"""Search functions in SQL (`vector_search`, `full_text_search`, `hybrid_search`) over all partitions of a table."""
