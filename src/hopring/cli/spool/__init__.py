"""`hop spool`: fill spools, look at them, read them, verify and archive them."""
