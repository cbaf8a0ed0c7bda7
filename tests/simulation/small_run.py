"""A run of a second, for tests to change."""

SMALL = {
    "data": {"kind": "synthetic", "train": 240, "test": 60, "side": 4},
    "model": {"kind": "mlp", "hidden": [8]},
    "training": {"lr": 0.1},
    "clients": 12,
    "malicious": 2,
    "shards": 4,
    "rounds": 3,
}
