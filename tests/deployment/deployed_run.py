"""Records of a made-up deployment, for those who read them."""

import msgspec

from f2ed.records import Deployed, LeakReading, Plugin, RoundRecord, RunHeader, Seconds, line

HEADER = RunHeader(
    source="deployment",
    name="clinics",
    digest="0" * 64,
    settings={"roster": {"serial": 3}},
    versions={"f2ed": "0.1", "flwr": "1.41.0", "python": "3.11.2"},
    estimator=Plugin(kind="filter-l2", title="FilterL2"),
    rounds=3,
    clients=4,
    shards=((0, 1), (2, 3)),
    mode="all-or-nothing",
    crowd=2,
    guarantee={"malicious": 0},
    names={0: "alpha", 1: 'be"ta', 2: "gamma", 3: "delta"},
    started="2026-01-02T03:04:05+00:00",
)
GOOD = RoundRecord(
    round=0,
    weights=(0.5, 0.5),
    crowd=2,
    clipped=3,
    shortened=1,
    bytes_up=100,
    bytes_down=200,
    guarantee="theorem",
    leak=LeakReading(rank=2, exposed=0, first=None, crowd=2),
    seconds=Seconds(exchange=1.5, sum=0.25),
    ended="2026-01-02T03:05:05+00:00",
    accuracy=0.75,
    loss=0.5,
    deployed=Deployed(number=4),
)
REJECTED = msgspec.structs.replace(
    GOOD,
    round=1,
    weights=(1.0, 0.0),
    dropped={1: "late"},
    guarantee="nothing",
    dp_epsilon={0: 1.5, 1: 2.5},
    ended="2026-01-02T03:06:05+00:00",
    deployed=Deployed(
        number=6,
        attempts=("number 5: too few",),
        late={1: "round 0"},
        quarantined={1: "in quarantine for 2 rounds"},
        measured={"loss": 0.25, "ages": (1.0, 2.0)},
    ),
)
CLOSED = msgspec.structs.replace(GOOD, round=2, weights=(1.0, 0.0), excluded={1: "late"}, clipped=0)


def write_run(path, *rounds):
    path.write_bytes(line(HEADER) + b"".join(map(line, rounds)))
    return path
