"""Shared parts of the attacks: what the attacker knows, where its clients are, how they train and what they want."""
