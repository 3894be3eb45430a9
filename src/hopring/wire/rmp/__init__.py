"""The twelve packets of RMP (figure 4.1), lists of members, and their encodings."""
