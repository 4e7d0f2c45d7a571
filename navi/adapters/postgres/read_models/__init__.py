"""Read models in Postgres, and their builds."""
