"""Building blocks above sessions: request and reply. Pure cores, and their binding to a session."""
