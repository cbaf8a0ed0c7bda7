"""A server that lies, against real nodes with key files and a signed roster: it sends whatever a test makes."""

from collections import Counter

import msgspec
from flwr.app import ConfigRecord, Message

from f2ed import PeerError
from f2ed.deployment.roster import round_task
from f2ed.flower.wire import reply_bytes, request_content
from f2ed.protocol.aggregation import terms_of
from f2ed.protocol.secagg import read_request
from f2ed.protocol.secagg.messages import AskUpload, Upload, read_reply, write
from f2ed.protocol.secagg.schemes.dropout_tolerant.evidence import Deals
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import (
    Advertisement,
    Alive,
    Confirmation,
    Confirmations,
    Delivery,
    Invite,
    Peers,
    Reveal,
    Shares,
    TolerantUpload,
)
from f2ed.protocol.secagg.terms import bind
from tests.flower.fake_grid import FakeGrid, Node, fingerprint, model, real_roster, user_app
from tests.protocol.secagg.agree import agree

RUN = 7


class LyingServer:
    """Leads one shard as it likes; `refusals` holds what each node said against it."""

    def __init__(self, folder, count, *, shards=1, fault=None, **signed):
        self.roster, self.settings = real_roster(folder, count, shards=shards, **signed)
        self.nodes = [Node(client, user_app(fault=fault), self.settings[client]) for client in range(count)]
        FakeGrid(self.nodes, RUN)
        self.refusals = {}

    def terms(self, round_=0, *, run=RUN, shard=0, epoch=None, protocol=None, **changes):
        """Return terms as an honest server proposes them, with changes."""
        task = round_task(self.roster, self.roster.job(run), round_, model=fingerprint(model()), coordinates=26)
        task = msgspec.structs.replace(
            task, protocol=protocol or task.protocol, epoch=task.epoch if epoch is None else epoch
        )
        return msgspec.structs.replace(terms_of(self.roster.assignment(round_), task, shard), **changes)

    def ask(self, client, request, kind, *, run=RUN, settings=None):
        """Send a request, or bytes; return the reply if it is of this kind, and None after a refusal."""
        try:
            return read_reply(kind, self._reply(client, request, run=run, settings=settings), payload=10**6)
        except PeerError as error:
            self.refusals[client] = str(error)
            return None

    def _reply(self, client, request, *, run=RUN, settings=None):
        data = request if isinstance(request, bytes) else write(request)
        config = ConfigRecord({"server-round": 1, **(settings or {})})
        record = ConfigRecord({"request": data, "model": fingerprint(model(), config)})
        given = {"arrays": model(), "config": config} if _asks_update(data) else {}
        message = Message(request_content(record, **given), client + 1, "train")
        message.metadata.__dict__["_message_id"] = "a message"
        return reply_bytes(self.nodes[client].answer(client + 1, run, message))

    def ask_all(self, requests, kind):
        replies = {client: self.ask(client, request, kind) for client, request in requests.items()}
        return {client: reply for client, reply in replies.items() if reply is not None}

    def all_or_nothing(self, terms, *, run=RUN, agreed=None):
        """Return the uploads of a round of all-or-nothing, by client; the keys may be agreed on under other terms."""
        try:
            keys = agree(agreed or terms, self.roster.keys, lambda *asked: self._reply(*asked, run=run), self.refusals)
        except PeerError:
            return {}
        uploads = {
            client: self.ask(client, AskUpload(terms, *keys), Upload, run=run) for client in (agreed or terms).members
        }
        return {client: upload for client, upload in uploads.items() if upload is not None}

    def uploaded(self, terms, invite=None):
        """Lead a dropout-tolerant round up to the uploads; return who uploaded."""
        peers = self.ask_all(dict.fromkeys(terms.members, invite or Invite(terms)), Advertisement)
        shares = self.ask_all(dict.fromkeys(peers, Peers(tuple(peers.values()))), Shares)
        if not shares:
            return ()
        self.deals = Deals(bind(terms, self.roster.keys, fingerprint(model())), peers, shares)
        boxes = {client: Delivery(self.deals.delivery(client)) for client in shares}
        return tuple(self.ask_all(boxes, TolerantUpload))

    def split(self, lists, accomplice_signs=lambda _alive: ()):
        """Tell every client its own list of who is alive; return whatever shares the clients give for it.

        Shares come as (dealer, "seed" or "mask") → how many. The confirmations of everyone who was told the same list
        are passed on, with those that `accomplice_signs` adds.
        """
        revealed, confirmed = Counter(), {}
        for client, alive in lists.items():
            reply = self.ask(client, Alive(alive), Confirmation | Reveal)
            if isinstance(reply, Confirmation):
                confirmed.setdefault(alive, {})[client] = reply
            else:  # a node that could be made to skip the consistency step, or a refusal
                _count(revealed, client, reply, alive)
        for alive, replies in confirmed.items():
            signatures = {each.client: each for each in (*accomplice_signs(alive), *replies.values())}
            ordered = Confirmations(tuple(signatures[client] for client in sorted(signatures)))
            for client in replies:
                if (reply := self.ask(client, ordered, Reveal)) is not None:
                    _count(revealed, client, reply, alive)
        return revealed


def _asks_update(data):
    try:
        return read_request(data).asks_update
    except PeerError:
        return False


def _count(revealed, client, reply, alive):
    if reply:
        revealed[client, "seed"] += 10**6  # Its own seed, as good as any number of shares.
    for share in reply.shares if reply else ():
        revealed[share.dealer, "seed" if share.dealer in alive else "mask"] += 1


def can_open(revealed, members, wanted, threshold):
    """Return whether shares suffice to open the sum over `wanted` alone."""
    return all(revealed[each, "seed" if each in wanted else "mask"] >= threshold for each in members)
