"""Compiled numerics: arrays in, arrays out. No classes with behaviour, no input or output, no allocation in a loop."""
