"""Flow and congestion control of one sender, as a policy that can be exchanged (paper 4.6)."""
