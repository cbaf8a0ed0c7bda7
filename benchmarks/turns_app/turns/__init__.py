"""A federation whose rounds begin when they are told to."""
