import io

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

from f2ed import Mean
from f2ed.flower import F2ed
from f2ed.flower import transport as exchange
from f2ed.flower.transport import Deadlines
from sums.desk import Desk
from sums.task import start
from sums.watched import Clock, Watched

app = ServerApp()


class Ended(Exception):
    """The test has seen enough."""


class Supervised(F2ed):
    """A server that shows every model, and waits after each round until the test wants another."""

    desk = None

    def __init__(self, **settings):
        super().__init__(**settings, on_round=lambda finished: self.pause(finished.round, finished.arrays))

    def pause(self, number, model):
        self.desk.put_bytes(f"models/{number}.npy", as_file(model["x"].numpy()))
        self.desk.put(f"ended/{number}")
        wanted = self.desk.wait(f"begin/{number + 1}")
        if wanted == "end":
            raise Ended
        self._run.deadlines = Deadlines(600.0, float(wanted), 600.0)


def unattended(grid, settings):
    """Lead all rounds without waiting for a test, and keep the model after each."""
    desk = Desk(settings["desk"])

    def keep(finished):
        desk.put_bytes(f"models/{finished.round}.npy", as_file(finished.arrays["x"].numpy()))

    strategy = F2ed(
        roster=settings["f2ed-roster"],
        estimator=Mean(),
        min_crowd=3,
        min_shards=settings["min-shards"],
        deadline=settings["deadline"],
        train_deadline=settings["deadline"],
        min_deadline=settings["min-deadline"],
        wait_for_nodes=settings["wait-for-nodes"],
        max_wait=settings["max-wait"],
        max_skipped=settings["max-skipped"],
        checkpoint=settings["f2ed-checkpoint"],
        records=settings["f2ed-records"],
        server_key=settings["f2ed-server-key"] or None,
        on_round=keep,
    )
    arrays = ArrayRecord({"x": Array(start())})
    strategy.start(grid=grid, initial_arrays=arrays, num_rounds=settings["num-rounds"])


def as_file(array):
    """Return the bytes of an array's file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@app.main()
def main(grid, context):
    settings = context.run_config
    if settings["unattended"]:
        unattended(grid, settings)
        return
    strategy = (Supervised if settings["desk"] else F2ed)(
        roster=settings["f2ed-roster"],
        estimator=Mean(),
        mode=settings["f2ed-mode"],
        min_crowd=3,
        deadline=600.0,
        train_deadline=600.0,
        min_deadline=600.0,
        checkpoint=settings["f2ed-checkpoint"],
        records=settings["f2ed-records"],
    )
    arrays = ArrayRecord({"x": Array(start())})
    if not settings["desk"]:
        strategy.start(grid=grid, initial_arrays=arrays, num_rounds=settings["num-rounds"])
        return
    desk = Desk(settings["desk"])
    exchange.time = clock = Clock()
    grid = Watched(grid, desk, clock)
    if settings["plain-first"]:
        unprotected(grid, arrays, nodes=len(strategy.roster.clients))
        desk.put("plain")

    strategy.desk = desk

    def before(number, model):
        """Show the model that the run begins with."""
        if not strategy.records:
            strategy.pause(number, model)

    try:
        strategy.start(grid=grid, initial_arrays=arrays, num_rounds=1000, evaluate_fn=before)
    except Ended:
        return


def unprotected(grid, arrays, *, nodes):
    """Ask every node for its plain update and hold all of them, as any strategy of Flower does."""
    grid.until_connected(nodes)
    content = RecordDict({"arrays": arrays, "config": ConfigRecord({"server-round": 0})})
    messages = [Message(content, node, "train.plain") for node in grid.get_node_ids()]
    replies = list(grid.send_and_receive(messages))
    return [reply.content["arrays"]["x"].numpy() for reply in replies]
