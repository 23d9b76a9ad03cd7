"""What those who run a server ask of it: whether it lives and takes calls, and what it has done."""
