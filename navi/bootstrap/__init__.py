"""The composition root: which adapter stands behind which port, and in which order things start and end."""
