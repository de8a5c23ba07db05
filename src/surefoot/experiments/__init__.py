"""Experiments that run: names and units, decisions with ids, feedback in order, the watch, epochs."""
