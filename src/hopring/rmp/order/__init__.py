"""The order of one epoch at one member: slots, packets without a place, lists in effect, holders."""
