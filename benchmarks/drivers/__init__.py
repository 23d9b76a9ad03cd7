"""Programs that drive one peer each, in the environment of that peer: what `benchmarks.peers` starts."""
