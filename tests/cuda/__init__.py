"""The engine "cuda": on a GPU (`make test-cuda`), or on Numba's simulator of one, tiny instances (`make test`)."""
