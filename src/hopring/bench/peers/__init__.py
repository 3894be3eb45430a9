"""Other systems under the workloads of `hop bench`: same board, same order check, same runner, side by side.

Each module here is one system: how its servers are started, and what its clients do in each role. Nothing is
installed; what is missing is named with its remedy, and left out.
"""
