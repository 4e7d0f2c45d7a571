"""What everything speaks of: ids, errors, events and how they are stored."""
