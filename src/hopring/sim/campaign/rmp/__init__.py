"""The campaign's worlds of peers: RMP rings under faults, judged by R1 to R17 and by EVS-C."""
