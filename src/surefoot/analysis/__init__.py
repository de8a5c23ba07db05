"""Judging a run: the offline optimum it is measured against."""
