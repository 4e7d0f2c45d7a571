"""Commands on users and on what programs sign in with."""
