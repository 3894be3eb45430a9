"""Bytes to packets and back: one module per packet family. No state, no I/O."""
