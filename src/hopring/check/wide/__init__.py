"""Judges the long-haul service: W1 to W17, one function each."""
