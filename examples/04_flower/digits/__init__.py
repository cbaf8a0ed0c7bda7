"""Handwritten digits on Flower, with both protections."""
