"""What the agent can do: built-in tools, and the user's own in processes of their own."""
