"""An Apache Arrow Flight SQL service for Lance Partitioned Namespaces."""
