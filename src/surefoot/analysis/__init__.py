"""Evaluation of a run against the offline optimum."""
