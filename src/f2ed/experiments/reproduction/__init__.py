"""The figures of the paper: what was run, what it came to, and how it compares."""
