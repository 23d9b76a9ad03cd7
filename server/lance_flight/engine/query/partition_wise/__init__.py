"""Group-by-group execution of parts of a plan: storage-partitioned joins, and the operations that can run within each group.

`plans` reads DataFusion's logical plans, `divisible` finds what may be divided, `grouped` divides it by what `planning.joins`
says, `spine` puts the results in the place of the parts, `lanes` runs them.
"""
