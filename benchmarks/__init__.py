"""Timed comparisons, never part of the tests. `make bench` runs them all and prints ratios measured in one run."""
