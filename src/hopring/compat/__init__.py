"""Interfaces for programs written for Spread: its calls (`sp`) and its old Python module (`spread`).

Both speak Spread's client protocol over blocking sockets, to `hopd` as well as to a Spread daemon.
"""
