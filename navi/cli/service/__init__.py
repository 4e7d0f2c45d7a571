"""Commands that start navi, say how it is, and look for what is wrong."""
