"""Model servers: the wire formats, the connections, and which server is asked."""
