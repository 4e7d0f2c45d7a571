"""What reads the log and acts on it without ever holding it up."""
