"""Comparisons, timed and measured, never part of the tests. `make bench` runs them all; ratios are of one run."""
