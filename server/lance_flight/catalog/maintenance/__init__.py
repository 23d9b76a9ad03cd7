"""Keeping a namespace in shape while it is read and written: compaction, vacuum, repair.

Nothing here is needed to read or write, and nothing here changes an answer.
"""
