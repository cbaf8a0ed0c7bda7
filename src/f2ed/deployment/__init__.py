"""What a deployment needs that no network engine knows: roster, keys, certificates, state and preflight checks."""
