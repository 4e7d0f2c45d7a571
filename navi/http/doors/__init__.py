"""Doors for programs that speak a protocol of their own."""
