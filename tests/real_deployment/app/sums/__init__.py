"""An app whose result is known beforehand to the last bit, and whose processes fail on command."""
