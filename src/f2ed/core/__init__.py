"""What everything else stands on: errors, arrays, randomness, files."""
