"""A search small enough to be run many times."""

from f2ed.experiments import prepare
from f2ed.experiments.file import parse
from f2ed.experiments.search import Plan, Search, targets_of
from f2ed.experiments.search.workers import Here

FILE = """
title = "Small"
data = { kind = "synthetic", train = 240, test = 60, side = 4 }
model = { kind = "mlp", hidden = [8] }
clients = 12
malicious = 2
shards = 4
rounds = 3
secure = false
estimator = ["mean"]
training = { lr = 0.1, batch_size = 20 }
"""


def plan(content=FILE, **settings):
    cells, loaded = prepare(parse(content, "small.toml"))
    return Plan(targets_of(cells), **{"objectives": ("backdoor",), "budget": 3} | settings), loaded


def searched(out, content=FILE, *, stop_after=None, **settings):
    """Run a search, or its first events; return it with them."""
    made, loaded = plan(content, **settings)
    search, events = Search(made, out), []
    running = search.run(Here(loaded, device="cpu"))
    for event in running:
        events.append(event)
        if len(events) == stop_after:
            running.close()
            break
    return search, events


def proposals(search, study=0):
    """The settings of every trial that ended, in order."""
    return [trial.user_attrs["settings"] for trial in search.studies[study]._finished()]
