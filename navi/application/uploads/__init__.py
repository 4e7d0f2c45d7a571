"""Uploads: receive files, serve them, expire them."""
