"""Agents of the blocks in the simulator: one module for each kind."""
