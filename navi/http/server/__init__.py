"""The server below the routes: sockets, protocols, deadlines, which requests get in."""
