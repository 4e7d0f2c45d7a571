"""Profiles: those that navi brings along, and the user's own beside or in place of them."""
