"""Benches for contributors: each module measures one thing; `python -m hopring.bench` runs them."""
