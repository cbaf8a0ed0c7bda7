"""An app as Flower's PyTorch quickstart writes it, before anybody has heard of f2ed."""
