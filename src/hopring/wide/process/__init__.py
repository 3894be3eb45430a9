"""One member of the long-haul service as a process: its session, its disk, its connections."""
