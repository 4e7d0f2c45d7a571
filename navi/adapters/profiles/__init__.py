"""Built-in profiles, and the user's own beside or in place of them."""
