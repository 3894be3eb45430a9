"""`hop bench`: figures of this machine, on daemons and clients that are started for it, each a process."""
