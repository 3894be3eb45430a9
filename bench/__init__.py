"""Benches: each module measures one thing and runs by itself; `python -m bench` runs them all."""
