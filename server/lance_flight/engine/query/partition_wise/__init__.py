"""Running parts of a plan group by group: storage-partitioned joins, and what can be done beside them in each group.

`plans` reads DataFusion's logical plans, `divisible` finds what may be divided, `grouped` divides it by what `planning.joins`
says, `spine` puts the results in the place of the parts, `lanes` runs them.
"""
