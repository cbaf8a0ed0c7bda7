"""What the protocol is built on: cryptography, rings of integers, exact noise and unambiguous bytes."""
