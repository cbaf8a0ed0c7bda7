"""A text classifier, as Flower's quickstart for Hugging Face."""
