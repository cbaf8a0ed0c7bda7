"""An app whose result is known beforehand."""
