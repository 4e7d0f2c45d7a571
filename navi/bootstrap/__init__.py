"""The composition root: which adapter implements which port; start-up and shutdown order."""
