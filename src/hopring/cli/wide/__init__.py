"""The command `hop wide`: members of the long-haul service, and what clients ask of them."""
