"""Writes: planned before the tasks run, carried out by them, committed by the driver."""
