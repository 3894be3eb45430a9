"""Pure functions from a history to a verdict, one per property."""
