"""Judges rings of RMP: their events, the properties R1 to R17, and their form as a history of clients."""
