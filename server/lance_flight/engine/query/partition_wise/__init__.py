"""Execution of parts of a plan group by group: joins by partitions, and the operations that can run within each group.

`copartitioning` says what may be divided and chooses what is, `division` puts the results in the place of the parts and reads less by
what a join's other side has, and `lanes` runs them. `join_order` orders joins by row counts, and says what metadata answers.
"""
