"""Metadata tables: `t$tags`, and of a partitioned table `t$partitions`, `t$snapshots`, `t$branches` and more."""
