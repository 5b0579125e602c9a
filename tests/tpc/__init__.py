"""Tables and questions derived from TPC-H and TPC-DS: generated rows, 22 and 26 queries. Results are not comparable
with published results of TPC.
"""
