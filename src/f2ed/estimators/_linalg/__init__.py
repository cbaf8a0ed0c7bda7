"""Linear algebra that estimators share, in blocks of columns."""
