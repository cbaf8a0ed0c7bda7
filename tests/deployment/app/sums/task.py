"""What each client adds to the model in each round: a number that nobody else has, in every coordinate."""

import numpy as np


def change(client, round_, size):
    return np.random.default_rng([client, round_]).normal(0, 0.01, size).astype(np.float32)
