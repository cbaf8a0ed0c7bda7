"""An experiment file small enough to be run many times."""

SMALL = """
title = "Small"
data = { kind = "synthetic", train = 240, test = 60, side = 4 }
model = { kind = "mlp", hidden = [8] }
clients = 12
malicious = 1
shards = 4
rounds = 4
client_momentum = 0.5
attack = "trimmed-mean-attack"
training = { lr = 0.1 }
"""
