"""A federation of three clients and a server whose logs tests write, change and check."""

import os
from typing import NamedTuple

import msgspec

from f2ed.deployment.roster import Entry, Roster, signed
from f2ed.deployment.transparency import Authors, LogFile, compare_logs, verify_logs
from f2ed.deployment.transparency.lines import SERVER, Began, RoundClosed, ShardOutcome, Uploaded, signed_line
from f2ed.protocol.secagg import public_key

CTX, INPUT = b"c" * 32, b"i" * 32


def began(round_=0, **changes):
    given = {"round": round_, "shard": 0, "ctx": CTX, "job": "clinics.1/7", "input": INPUT, "members": b"m" * 32}
    return Began(**given | changes)


def uploaded(round_=0):
    return Uploaded(round=round_, shard=0, ctx=CTX)


def closed(round_=0, *, heads=(), survivors=(0, 1, 2), ctx=CTX):
    shard = ShardOutcome(shard=0, ctx=ctx, survivors=survivors, opened=b"o" * 32, dropped={"b": "late"})
    given = {"job": "clinics.1/7", "input": INPUT, "before": b"b" * 32, "after": b"a" * 32}
    return RoundClosed(round=round_, shards=(shard,), heads=heads, **given)


class Federation(NamedTuple):
    folder: object
    roster: Roster
    keys: dict

    @classmethod
    def create(cls, folder, name="clinics"):
        keys = {by: os.urandom(32) for by in (SERVER, 0, 1, 2)}
        authority = os.urandom(32)
        draft = Roster(
            name=name,
            authority=public_key(authority),
            clients=tuple(Entry(client, "abc"[client], public_key(keys[client])) for client in range(3)),
            server=public_key(keys[SERVER]),
        )
        roster = signed(draft, authority, shards=1, min_crowd=3, seed=os.urandom(32))
        return cls(folder, roster, keys)

    def log(self, by=0, name=None, **settings):
        path = self.folder / (name or f"{'server' if by == SERVER else 'abc'[by]}.log")
        given = {"lineage": self.roster.lineage, "roster": self.roster.digest, "serial": self.roster.serial}
        return LogFile(path, by, self.keys[by], **given | settings)

    def written(self, by=0, rounds=3, name=None):
        """Return the log of a client that took part in some rounds."""
        log = self.log(by, name)
        for round_ in range(rounds):
            log.append(began(round_), uploaded(round_))
        return log

    def resigned(self, line, **changes):
        changed = msgspec.structs.replace(line, **changes)
        return signed_line(changed, self.keys[changed.by], lineage=self.roster.lineage)

    def verify(self, *logs):
        return verify_logs([log.path for log in logs], Authors.of([self.roster]))

    def compare(self, *logs):
        return compare_logs([log.path for log in logs], Authors.of([self.roster]))


def kinds(result):
    return [finding.kind for finding in result.findings]


def texts(log):
    return log.path.read_bytes().splitlines(keepends=True)
