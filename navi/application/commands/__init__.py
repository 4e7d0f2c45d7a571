"""What people do to sessions and contexts, by whatever way it came in."""
