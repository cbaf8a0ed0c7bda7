"""What each client adds to the model in each round.

Every coordinate is a multiple of 60 steps of the fixed point, and a step is a power of two: rounding has nothing to
do, the mean of 1 to 6 clients is exact in float32, and so is every model that comes of it.
"""

import numpy as np

SIZE = 1000
STEP = 2.0**-20
CLIP = (2**19 - 1) * STEP
START = 0.25
MARK = slice(100, 108)
"""Where all clients add the same, so that one search finds whatever there is of anybody."""


def steps(client, round_):
    """Return a client's update in steps of the fixed point."""
    whole = 60 * np.random.default_rng([client, round_]).integers(-100, 101, SIZE)
    whole[MARK] = 60 * np.random.default_rng(0).integers(-100, 101, MARK.stop - MARK.start)
    return whole


def change(client, round_):
    """Return a client's update."""
    return (steps(client, round_) * STEP).astype(np.float32)


def start():
    """Return the model before the first round."""
    return np.full(SIZE, START, np.float32)


def moved(model, shards, round_):
    """Return the model after a round in which these shards opened with these survivors."""
    means = [np.mean([steps(client, round_) for client in shard], axis=0) for shard in shards]
    return (model + np.mean(means, axis=0) * STEP).astype(np.float32)
