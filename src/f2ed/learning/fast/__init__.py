"""Training many clients at once: batched, by hand-written layers, or in Triton."""
