"""The tables of the audit of clients: sessions and their stays in groups' views, messages, and courses.

Processes are sessions, and views are those of groups. A session has a number in each group, which is its bit in
sets: a history may have any number of small groups, and sets are only as wide as the largest group is.
"""
