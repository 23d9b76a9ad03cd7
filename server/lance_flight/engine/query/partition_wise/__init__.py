"""Execution of parts of a plan group by group: joins by partitions, and the operations that can run within each group.

`copartitioning` says what may be divided and chooses what is, `aggregates` what metadata answers, `division` puts the results in the place of the
parts, and `lanes` runs them. `join_order` and `key_pruning` read less by what a join's other side has.
"""
