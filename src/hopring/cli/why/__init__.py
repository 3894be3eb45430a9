"""`hop why`: what happened to the views of daemons, as one story of all that can be asked or read."""
