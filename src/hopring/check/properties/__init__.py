"""The properties of extended virtual synchrony."""
