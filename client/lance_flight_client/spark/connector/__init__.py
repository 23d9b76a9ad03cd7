"""The connector: a catalog of Spark's for SQL, whose planning is a Python process that the driver's JVM asks.

The Java in `java/` tells Spark's planner what `__main__.py` answers, and does nothing else; `jars/` has it built for each version of
Spark. Everything outside this package works without it.
"""
