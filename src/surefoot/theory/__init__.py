"""The paper made executable: bounds with their constants."""
