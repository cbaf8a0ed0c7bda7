"""Client nodes under a roster with helpers, whose helpers are processes' agents; the test leads the rounds."""

import os

import msgspec
from flwr.app import ConfigRecord, Message

from f2ed import FilterL2
from f2ed.deployment.helper_agent import HELPER, HelperAgent
from f2ed.deployment.keyfiles import write_pair
from f2ed.deployment.roster import HelperEntry, Helpers, SignedEncoding, countersigned, helped_terms, write_roster
from f2ed.flower import F2ed
from f2ed.flower.wire import carried_content, reply_bytes, request_content
from f2ed.protocol.aggregation import Buffers
from f2ed.protocol.helpers import HelpersProtocol, MemoryRows, ServerTask, helped_mean
from f2ed.protocol.primitives.crypto import public_key
from tests.flower.fake_grid import FakeGrid, Node, fingerprint, model, real_roster, user_app

SIZE = 26
SETTINGS = HelpersProtocol(sketch=96, tests=8, agreement="x25519", size=3)
RULE = FilterL2(contamination=0.1)
RUN = 7


class HelpedNodes:
    """Clients in groups of three, a mixer and a judge, each behind a Flower node."""

    def __init__(self, folder, fields=None, *, count=6, settings=SETTINGS, rule=RULE, client_app=None, **app):
        self.folder = folder
        self.keys = {role: os.urandom(32) for role in ("server", "mixer", "judge")}
        parties = tuple(HelperEntry(role, f"the {role}'s", public_key(self.keys[role])) for role in ("judge", "mixer"))
        stated = {
            "helpers": Helpers(operator="the server's", parties=parties, settings=settings, rule=rule),
            "server": public_key(self.keys["server"]),
            "encoding": SignedEncoding(clip_norm=1.0),
            "buffers": Buffers(policy="keep"),
        }
        made, self.settings = real_roster(folder, count, shards=count // 3, fields=stated | (fields or {}))
        self.roster = countersigned(countersigned(made, self.keys["mixer"]), self.keys["judge"])
        write_roster(folder / "roster.json", self.roster)
        runs = client_app or user_app(**app)
        self.clients = [Node(client, runs, self.settings[client]) for client in range(count)]
        helpers = []
        for role in ("mixer", "judge"):
            own = self.settings[0] | {"f2ed-state": str(folder / role)}
            agent = HelperAgent(role, self.keys[role], own, uid=os.geteuid())
            agent.start(first=True)
            agent.listen(folder / f"{role}.sock")
            helpers.append(Node(0, user_app(), {HELPER: str(folder / f"{role}.sock")}))
        self.grid = FakeGrid([*self.clients, *helpers], RUN)
        self.helpers = dict(zip(("mixer", "judge"), helpers, strict=True))
        write_pair(folder / "server.key", self.keys["server"])
        ids = list(self.grid.nodes)
        self.places = dict(enumerate(ids[:count])) | {"mixer": ids[count], "judge": ids[count + 1]}

    def ask(self, party, request, arrays, config):
        """Send a request to a party's node; return its reply."""
        if party in ("mixer", "judge"):
            content = carried_content(request)
        else:
            content = request_content(ConfigRecord({"request": request}), arrays=arrays, config=config)
        place = self.places[party]
        return reply_bytes(self.grid.nodes[place].answer(place, RUN, Message(content, place, "train")))

    def run(self, number=0, *, round_=1, **changes):
        """Lead a round; return how it ended."""
        arrays, config = model(), ConfigRecord({"server-round": round_})
        terms = helped_terms(self.roster, self.roster.job(RUN), number, coordinates=SIZE)
        task = ServerTask(
            terms=msgspec.structs.replace(terms, **changes),
            roster=self.roster.keys,
            model=fingerprint(arrays, dict(config)),
            signing_key=self.keys["server"],
            entropy=os.urandom(32),
            rows=MemoryRows(),
        )
        server = helped_mean(task)
        requests = next(server)
        while True:
            replies = {party: self.ask(party, request, arrays, config) for party, request in requests.items()}
            try:
                requests = server.send(replies) or server.send({})
            except StopIteration as stop:
                return stop.value


def strategy(it, **settings):
    """Return a server of these nodes; its files are in their folder."""
    given = {
        "roster": it.folder / "roster.json",
        "server_key": it.folder / "server.key",
        "checkpoint": it.folder / "run.checkpoint",
        "records": it.folder / "run.jsonl",
        "min_crowd": 3,
        "deadline": 0.3,
        "train_deadline": 0.3,
        "max_wait": 3,
    }
    return F2ed(**given | settings)


def lead(it, rounds=1, **settings):
    """Lead rounds; return the server and the model."""
    server = strategy(it, **settings)
    result = server.start(it.grid, model(), num_rounds=rounds)
    return server, result.arrays
