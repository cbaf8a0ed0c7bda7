"""The base of all other packages: errors, arrays, randomness, files."""
