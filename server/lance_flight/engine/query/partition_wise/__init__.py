"""Execution of parts of a plan group by group: joins by partitions, and the operations that can run within each group.

`copartitioning` says what may be divided, `parts` and `aggregates` choose what is, `division` puts the results in the place of the
parts, and `lanes` runs them. `join_order`, `key_pruning` and `statistics` read less by what a join's other side has.
"""
