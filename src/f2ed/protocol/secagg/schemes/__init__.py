"""The secure-aggregation schemes, one file each."""
