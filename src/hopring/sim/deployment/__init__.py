"""Whole deployments in virtual time: the real processes of daemons and clients on a simulated kernel."""
