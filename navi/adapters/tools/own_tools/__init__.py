"""The user's own tools, run in processes of their own."""
