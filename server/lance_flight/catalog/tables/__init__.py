"""Partition tables: versions and files of them, how their rows are read and made to fit."""
