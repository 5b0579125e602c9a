"""Tables and questions derived from TPC-H: generated rows, and 22 queries. Results are not comparable with published
TPC-H results.
"""
