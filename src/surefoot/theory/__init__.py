"""The paper made executable: bounds with their constants, and claims that simulations hold or refute."""
