"""Everything computed about the paper: its figures, comparisons with its numbers, and the worst cases."""
