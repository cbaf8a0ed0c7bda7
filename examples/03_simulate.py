"""Train a model across 60 clients, 4 of them malicious, with both protections: a few lines, half a minute.

The settings are those of an experiment file (see experiments/ and `f2ed run`), as keywords.

Run it: python examples/03_simulate.py
"""

from f2ed.simulation import simulate

FEDERATION = {
    "data": "digits",
    "model": {"kind": "mlp", "hidden": [32]},
    "clients": 60,
    "malicious": 4,
    "shards": 20,
    "rounds": 8,
    "training": {"lr": 0.3, "batch_size": 5, "local_epochs": 5},
    "attack": {"kind": "model-replacement", "boost": "replacement"},
}


def main() -> None:
    for estimator in ("mean", "filter-l2"):
        print(estimator)
        for record in simulate(**FEDERATION, estimator=estimator):
            print(
                f"  round {record.round}: accuracy {record.accuracy:6.1%}, backdoor success {record.success:6.1%}, "
                f"weight on contaminated shards {record.contaminated_weight:6.1%}"
            )
        print(f"  {record.bytes_up:,} bytes sent per client and round; {record.stopped or 'every row counted'}")


if __name__ == "__main__":
    main()
