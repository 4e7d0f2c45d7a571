"""Verbs: the shell that awaits; it asks the domain, performs the step through a port, records the outcome."""
