"""Authorization: roles from a file, and row policies that are enforced before a partition table is opened."""
