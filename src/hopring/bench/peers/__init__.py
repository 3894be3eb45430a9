"""Other systems under the workloads of `hop bench`: the same counters, order check and runner, side by side.

Each module is one system: how its servers are started, and what its clients do in each role. Nothing is
installed; a missing system is left out, with the command that would install it.
"""
