"""The console: pages about the tables of a server, its partitions above all, by an unprivileged client of it."""
