"""Files of other formats as streams of Arrow batches, for loading them into tables."""
