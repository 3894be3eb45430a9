"""Judges the long-haul service: W1 to W16, one function each."""
