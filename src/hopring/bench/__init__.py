"""Measurements: `hop bench` for users, `python -m hopring.bench` for contributors, other systems in `peers`."""
