"""The pages of the service: what operators look at."""
