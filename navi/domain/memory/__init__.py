"""Memories: what is worth one, how they change, are found and put into the prompt."""
