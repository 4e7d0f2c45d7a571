"""Tools of MCP servers: each server is spoken to by a process of its own."""
