"""Policies meet environments: worlds, episodes, many seeds on many cores, and what comes of them."""
