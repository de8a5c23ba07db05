"""Simulation of policies in environments: worlds, episodes, many seeds on many cores, and their results."""
