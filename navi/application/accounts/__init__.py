"""Users, logins, tokens, and the log of what was done with them."""
