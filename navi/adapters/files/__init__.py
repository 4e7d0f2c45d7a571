"""The directories in which sessions keep their files."""
