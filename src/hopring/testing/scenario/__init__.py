"""Scenarios: stories of commands and of what happened, run in the simulator (docs/simulator.md)."""
