"""Run code that nobody vouches for: bubblewrap, a seccomp filter, limits, and a keeper that watches."""
