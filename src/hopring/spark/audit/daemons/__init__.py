"""The tables of the audit of daemons: lives and stays, messages, holdings, and courses."""
