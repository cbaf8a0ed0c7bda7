"""Images and a convolutional network, as in Flower's PyTorch quickstart."""
