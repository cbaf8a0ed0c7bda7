"""A federation of real processes under faults that are drawn from a seed, and what must hold afterwards."""
