"""Who may do what: roles from a file, and row policies that a statement meets before it opens a partition table."""
