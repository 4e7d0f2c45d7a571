"""The protocols that the application speaks, one file a subject, and the values that cross them."""
