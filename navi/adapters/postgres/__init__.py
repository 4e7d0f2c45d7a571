"""Postgres: the event log, and what else is kept beside it."""
