"""A malicious client on Flower, and what becomes of its shard."""
