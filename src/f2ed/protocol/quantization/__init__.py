"""Quantization: updates of floats as integers modulo 2^b, and the mean of a shard back as floats."""
