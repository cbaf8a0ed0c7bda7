"""A transformer whose adapters alone are trained together."""
