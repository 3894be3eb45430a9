"""`hop monitor`: status of running daemons and actions on them, over their admin sockets."""
