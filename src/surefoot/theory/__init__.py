"""The paper as code: bounds with their constants, and claims that simulations test."""
