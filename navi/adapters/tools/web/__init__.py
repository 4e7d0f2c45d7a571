"""The tools that read the web, and the process in which they meet it."""
