"""AG-UI: a run of an agent as a stream of its events."""
