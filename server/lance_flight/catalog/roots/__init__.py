"""The directory of all tables, partitioned and plain: found, made, renamed, attached and dropped."""
