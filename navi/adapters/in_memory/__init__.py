"""In memory: logs and stores that behave like the real ones, for tests of what stands on them."""
