"""Benchmarks: `uv run --group bench python -m benchmarks`.

Every number stands beside a limit that was measured in the same run, in rounds that alternate with ours: on a shared
machine only the ratio means anything. What each area measures, against what and why, its module says.
`python -m benchmarks.peers` sets the service beside other stores of the
same rows, each in an environment of its own.
"""
