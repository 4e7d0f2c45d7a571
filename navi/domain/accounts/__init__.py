"""Users and programs that sign in, and how often they may ask."""
