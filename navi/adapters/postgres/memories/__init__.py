"""Memories in Postgres: full text and vectors."""
