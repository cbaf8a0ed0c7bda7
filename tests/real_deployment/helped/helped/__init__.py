"""An app whose rounds are led with helpers."""
