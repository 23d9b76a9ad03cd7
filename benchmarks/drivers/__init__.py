"""What `benchmarks.peers` starts: a driver for each peer, and the program that runs one in the environment of its peer."""
