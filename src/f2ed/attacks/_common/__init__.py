"""What attacks share: what an attacker knows, where its clients are, how they train and what they want."""
