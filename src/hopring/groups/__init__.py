"""Light-weight groups of client sessions, on top of the daemons' one view and one order."""
