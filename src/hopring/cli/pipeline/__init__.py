"""`hop pipeline`: Spark jobs over spools and traces, and a server for many of them."""
