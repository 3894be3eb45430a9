"""Light-weight groups: the daemons' one view and order, made into views and messages for clients."""
