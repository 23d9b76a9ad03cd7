"""The metadata tables of a table: `t$tags`, and of a partitioned one `t$partitions`, `t$snapshots`, `t$branches` and more."""
