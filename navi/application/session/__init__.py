"""Write to a session: the one path of every append, with retry while Postgres is away."""
