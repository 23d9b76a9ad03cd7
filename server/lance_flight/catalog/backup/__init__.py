"""Backups of roots: consistent copies of snapshots with a checksum of every file, and roots that are restored from them."""
