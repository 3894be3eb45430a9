"""Scenarios: files of commands and recorded events, run in the simulator (docs/simulator.md)."""
