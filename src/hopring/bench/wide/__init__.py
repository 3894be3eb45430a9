"""The figures of the long-haul paper, taken again: from bare TCP up to the whole service."""
