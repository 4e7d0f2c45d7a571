"""The tool ``ssh``: commands on the hosts that a file names."""
