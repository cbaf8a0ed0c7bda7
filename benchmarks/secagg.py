"""Secure aggregation: time per step, bytes per client, memory, and ratios to the limit and to a peer, in one run.

    python benchmarks/secagg.py                     everything (about ten minutes on two quiet cores)
    python benchmarks/secagg.py --quick             small shards and vectors only (some ten seconds)
    python benchmarks/secagg.py --parts masking     one part of it (about two minutes)
    python benchmarks/secagg.py --json              one JSON document instead of tables
    python benchmarks/secagg.py --peer DIRECTORY    also look for Flower there

The limit is what the machine allows for m masks over d words: AES-256-CTR by OpenSSL through `cryptography` into a
reused buffer, plus one addition per mask, both on blocks that stay in the cache, in one thread. It is measured again
next to everything that is compared with it, and all times are the shortest of several. The peer is Flower's
SecAgg+: its own functions, called as its client and its workflow call them. It is skipped if it is not
installed; to install it:

    pip install --no-deps --target DIRECTORY flwr==1.41.0 protobuf grpcio httpx typer annotated-doc shellingham \
        pycryptodome iterators
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import cryptography
import msgspec
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from f2ed.estimators import FilterL2
from f2ed.protocol.aggregation import Protocol, Task, contribution, shard_means
from f2ed.protocol.primitives.crypto import public_key
from f2ed.protocol.primitives.ring import Ring
from f2ed.protocol.quantization.encoding import Encoding, decode_mean, encode
from f2ed.protocol.secagg import encapsulate, shamir
from f2ed.protocol.secagg.client import respond
from f2ed.protocol.secagg.masks import Mask, add_masks
from f2ed.protocol.secagg.member import Member
from f2ed.protocol.secagg.messages import Upload, write
from f2ed.protocol.secagg.schemes import SCHEMES, read_request
from f2ed.protocol.secagg.server import ShardSum, secure_sum
from f2ed.protocol.secagg.terms import Terms
from f2ed.protocol.sharding import assign_shards

ENCODING = Encoding(clip_value=0.1, bits=20, ring=32)
MODEL = bytes(32)
MODES = tuple(mode for mode, scheme in SCHEMES.items() if scheme.masked)
WORD = 4
LONG = 10**8
STEP_NAMES = {
    "AskKey": "epoch key",
    "AskUpload": "upload",
    "Invite": "advertise",
    "Peers": "share",
    "Delivery": "upload",
    "Alive": "confirm",
    "Confirmations": "reveal",
}


# --- the limit


@dataclass(frozen=True)
class Limit:
    """Seconds per byte, one thread, on the best block size."""

    aes: float
    add: float

    def masks(self, count: int, words: int) -> float:
        return count * words * WORD * (self.aes + self.add)


def measure_limit(total: int = 1 << 26) -> Limit:
    """Find the fastest block size for both together."""
    found = [_limit_of(block, total // block) for block in (1 << 16, 1 << 17, 1 << 18, 1 << 19)]
    return min(found, key=lambda limit: limit.aes + limit.add)


def _limit_of(block: int, times: int) -> Limit:
    encryptor = Cipher(algorithms.AES(bytes(range(32))), modes.CTR(bytes(16))).encryptor()
    zeros, out = bytes(block), bytearray(block)
    words, mask = np.zeros(block // WORD, "<u4"), np.ones(block // WORD, "<u4")
    aes = best(lambda: [encryptor.update_into(zeros, out) for _ in range(times)])
    add = best(lambda: [np.add(words, mask, out=words) for _ in range(times)])
    return Limit(aes / (block * times), add / (block * times))


def expand_and_add(total: int, block: int = 1 << 18) -> Callable[[], None]:
    """Return the work that the limit measures, for this many bytes of masks; its buffers are allocated beforehand."""
    encryptor = Cipher(algorithms.AES(bytes(range(32))), modes.CTR(bytes(16))).encryptor()
    zeros, out = bytes(block), bytearray(block)
    words, mask = np.ones(block // WORD, "<u4"), np.frombuffer(out, "<u4")
    whole, rest = divmod(total, block)
    last = memoryview(out)[:rest]

    def work() -> None:
        for _ in range(whole):
            encryptor.update_into(zeros, out)
            np.add(words, mask, out=words)
        encryptor.update_into(zeros[:rest], last)
        np.add(words[: rest // WORD], mask[: rest // WORD], out=words[: rest // WORD])

    return work


def adding(uploads: int, d: int) -> float:
    """Return the seconds to add this many vectors that come from memory, not from the cache."""
    total, few = np.zeros(d, "<u4"), [np.ones(d, "<u4") for _ in range(min(uploads, 10))]
    return best(lambda: [np.add(total, one, out=total) for one in few], 3) * uploads / len(few)


def best(work: Callable[[], object], times: int = 5) -> float:
    """Return the shortest of several runs: the time without interference."""
    return min(_seconds(work) for _ in range(times))


def race(*works: Callable[[], object], times: int) -> list[float]:
    """Return the shortest run of each, interleaved, so that a busy machine affects all of them equally."""
    turns = [[_seconds(work) for work in works] for _ in range(times)]
    return [min(column) for column in zip(*turns, strict=True)]


def _seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


# --- masking alone


def masking(sizes: list[int], lengths: list[int], peer: "Flower | None") -> Iterator[dict]:
    for s in sizes:
        for d in lengths:
            yield _masking_of(s, d, peer)


def _masking_of(s: int, d: int, peer: "Flower | None") -> dict:
    words, masks = np.zeros(d, "<u4"), [Mask(os.urandom(32), negative=bool(i % 2)) for i in range(s)]
    limit, one, two, *theirs = race(
        expand_and_add(s * d * WORD),
        lambda: add_masks(words, masks, threads=1),
        lambda: add_masks(words, masks, threads=2),
        *([peer.masks(s, d)] if peer and s * d <= 10**7 else []),
        times=5 if s * d >= LONG else 15,
    )
    return {
        "s": s,
        "d": d,
        "limit_ms": 1e3 * limit,
        "one_thread_ms": 1e3 * one,
        "one_thread_to_limit": one / limit,
        "two_threads_ms": 1e3 * two,
        "two_threads_to_limit": two / limit,
        "flower_ms": 1e3 * theirs[0] if theirs else None,
        "flower_to_one_thread": theirs[0] / one if theirs else None,
        "flower_to_two_threads": theirs[0] / two if theirs else None,
    }


def whole_upload(s: int, d: int, peer: "Flower | None") -> dict:
    """From the update in floats to the bytes of the upload: encode and mask; the keys are agreed beforehand."""
    update = np.random.default_rng(1).normal(0, 0.02, d).astype(np.float32)
    masks = [Mask(os.urandom(32), negative=bool(i % 2)) for i in range(s)]

    def work(threads: int) -> bytes:
        words = encode(update, ENCODING, clients=s, key=os.urandom(32))
        add_masks(words, masks, threads=threads)
        return write(Upload(bytes(8), Ring(32).pack(words)))

    one, two, *theirs = race(lambda: work(1), lambda: work(2), *([peer.upload(s, update)] if peer else []), times=9)
    return {
        "s": s,
        "d": d,
        "one_thread_ms": 1e3 * one,
        "two_threads_ms": 1e3 * two,
        "bytes": len(work(1)),
        "flower_ms": 1e3 * theirs[0] if theirs else None,
        "flower_bytes": sum(map(len, peer.upload(s, update)())) if peer else None,
        "flower_to_one_thread": theirs[0] / one if theirs else None,
        "flower_to_two_threads": theirs[0] / two if theirs else None,
    }


# --- the whole protocol


@dataclass
class Timing:
    """Seconds and bytes of one round in one shard, by step; the client's are lists over the clients."""

    client: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    server: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    up: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    down: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def epoch(self, first: "Timing") -> None:
        """Copy what happened once per epoch."""
        for mine, theirs in ((self.client, first.client), (self.server, first.server), (self.up, first.up)):
            mine["epoch key"] = theirs["epoch key"]
        self.down["epoch key"] = first.down["epoch key"]


def consume(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


class Shard:
    """All clients of a shard in this process, one at a time, and the server generator that leads them."""

    def __init__(self, mode: str, s: int, update: np.ndarray, *, dropped: int = 0) -> None:
        members = tuple(range(2**63, 2**63 + s))  # ids as long as those of a deployment
        secrets = {client: os.urandom(32) for client in members}
        roster = {client: public_key(secret) for client, secret in secrets.items()}
        threshold, min_crowd = SCHEMES[mode].quorum(s)
        self.terms = Terms(
            job="benchmark",
            epoch=0,
            round=0,
            shard=0,
            members=members,
            mode=mode,
            threshold=threshold,
            min_crowd=min_crowd,
            length=ENCODING.length(len(update)),
            ring=ENCODING.ring_for(s).bits,
            bits=ENCODING.bits,
            clip_value=ENCODING.clip_value,
            clip_norm=ENCODING.clip_norm,
        )
        self.update = update
        self.members = {
            client: Member(id=client, signing_key=secret, roster=roster, job="benchmark")
            for client, secret in secrets.items()
        }
        self.states = dict.fromkeys(members, b"")
        self.lost = set(members[len(members) - dropped :])
        self.timing = Timing()
        self.plain: np.ndarray | None = None
        self._lead(roster, ())

    def _lead(self, roster: dict, keys: tuple) -> None:
        self.server = secure_sum(self.terms, roster, model=MODEL, keys=keys)
        self.outcome: ShardSum | None = None

    def next_round(self, update: np.ndarray) -> None:
        """Move on to the next round of the epoch; the keys are kept."""
        self.update = update
        length = ENCODING.length(len(update))
        self.terms = msgspec.structs.replace(self.terms, round=self.terms.round + 1, length=length)
        self._lead(next(iter(self.members.values())).roster, self.outcome.keys)

    def steps(self) -> Iterator[None]:
        """Run the round, and yield after each step."""
        start = perf_counter()
        requests = next(self.server)
        self.timing.server["begin"] += perf_counter() - start
        while self.outcome is None:
            requests = self._step(requests)
            yield

    def _step(self, requests: dict) -> dict:
        name = STEP_NAMES[type(read_request(next(iter(requests.values())))).__name__]
        following: dict = {}
        for client, request in requests.items():
            if name != "upload" or client not in self.lost:
                following = self._send(name, {client: self._reply(name, client, request)})
        return following if following or self.outcome else self._send(name, {})

    def _reply(self, name: str, client: int, request: bytes) -> bytes:
        encoding: list[float] = []

        def contribution(terms: Terms) -> np.ndarray:
            start = perf_counter()
            words = encode(self.update, ENCODING, clients=len(terms.members), key=os.urandom(32))
            self.timing.client["encode"].append(perf_counter() - start)
            if self.plain is not None:
                self.plain += words
            encoding.append(perf_counter() - start)
            return words

        start = perf_counter()
        answer = respond(
            self.members[client],
            self.states[client],
            request,
            model=MODEL,
            contribution=contribution,
            entropy=os.urandom(32),
            encapsulate=encapsulate,
        )
        self.timing.client[name].append(perf_counter() - start - sum(encoding))
        self.timing.up[name].append(len(answer.reply))
        self.timing.down[name].append(len(request))
        assert answer.refusal is None, answer.refusal
        self.states[client] = answer.state
        return answer.reply

    def _send(self, name: str, replies: dict) -> dict:
        start = perf_counter()
        try:
            return self.server.send(replies)
        except StopIteration as end:
            self.outcome = end.value
            return {}
        finally:
            self.timing.server[name] += perf_counter() - start


def protocol(sizes: list[int], lengths: list[int]) -> Iterator[dict]:
    for d in lengths:
        update = np.random.default_rng(d).normal(0, 0.02, d).astype(np.float32)
        for s in sizes:
            for mode in MODES:
                yield _one_case(mode, s, update, 0)
                # A shard that stays closed does the same work and shows nothing new: left out of the longest runs.
                if SCHEMES[mode].tolerates_dropouts or s * d < LONG:
                    yield _one_case(mode, s, update, -(-s // 10))


def _one_case(mode: str, s: int, update: np.ndarray, dropped: int) -> dict:
    d = len(update)
    scheme = SCHEMES[mode]
    closed = not scheme.tolerates_dropouts and dropped > 0
    rounds = [_one_round(mode, s, update, dropped) for _ in range(1 if s * d >= LONG else 3)]
    limit = measure_limit(1 << 24)
    # The shortest over clients and rounds: the time without interference.
    client = {step: 1e3 * min(min(each.client[step]) for each in rounds) for step in rounds[0].client}
    server = {step: 1e3 * min(each.server[step] for each in rounds) for step in rounds[0].server}
    applied = s if scheme.tolerates_dropouts else s - 1
    remaining = (s - dropped) * (dropped + 1) if scheme.tolerates_dropouts else 0
    minimum = adding(s - dropped, d) + limit.masks(remaining, d)
    return {
        "mode": mode,
        "s": s,
        "d": d,
        "dropped": dropped,
        "opened": not closed,
        "client_ms": client,
        "server_ms": server,
        "client_total_ms": sum(client.values()),
        "server_total_ms": sum(server.values()),
        "upload_to_limit": client["upload"] / (1e3 * limit.masks(applied, d)),
        "server_to_limit": sum(server.values()) / (1e3 * minimum),
        "up_bytes": {step: round(statistics.median(sizes)) for step, sizes in rounds[0].up.items()},
        "down_bytes": {step: round(statistics.median(sizes)) for step, sizes in rounds[0].down.items()},
    }


def _one_round(mode: str, s: int, update: np.ndarray, dropped: int) -> Timing:
    """Run one round, and check that its result is exactly the sum of the survivors' integers.

    Where keys last an epoch, the round is the second of its epoch, after one with a short vector; the key agreement is
    reported separately.
    """
    shard = Shard(mode, s, update[:100] if SCHEMES[mode].keeps_keys else update, dropped=dropped)
    if SCHEMES[mode].keeps_keys:
        lost, shard.lost = shard.lost, set()
        consume(shard.steps())
        first, shard.timing, shard.lost = shard.timing, Timing(), lost
        shard.timing.epoch(first)
        shard.next_round(update)
    shard.plain = np.zeros(shard.terms.length, "<u4")
    consume(shard.steps())
    outcome, timing = shard.outcome, shard.timing
    if dropped and not SCHEMES[mode].tolerates_dropouts:
        assert outcome.total is None
        return timing
    assert outcome.total is not None, outcome.reason
    assert np.array_equal(outcome.total, shard.plain), "the sum is wrong"
    start = perf_counter()
    decode_mean(outcome.total, ENCODING, clients=s, survivors=len(outcome.survivors))
    timing.server["decode"] = perf_counter() - start
    return timing


# --- Shamir


def secret_sharing(n: int, peer: "Flower | None") -> dict:
    threshold = n // 2 + 1
    secret = int.from_bytes(os.urandom(32), "big")
    stream = os.urandom(48 * (threshold - 1))

    def share() -> list[int]:
        return shamir.split(secret, shamir.coefficients_from(stream, threshold - 1), n)

    some = {place: y for place, y in enumerate(share(), 1) if place <= threshold}

    def forgetful(work: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            shamir._lagrange.cache_clear()  # noqa: SLF001  the first of a shard computes what the others reuse
            work()

        return run

    assert shamir.combine(some) == secret
    first_share, first_combine = best(forgetful(share)), best(forgetful(lambda: shamir.combine(some)))
    warm_share, warm_combine = best(share), best(lambda: shamir.combine(some))
    found = {
        "n": n,
        "threshold": threshold,
        "share_ms": 1e3 * warm_share,
        "combine_ms": 1e3 * warm_combine,
        "first_share_ms": 1e3 * first_share,
        "first_combine_ms": 1e3 * first_combine,
    }
    if peer:
        for name, length in (("seed", os.urandom(32)), ("key", peer.private_key)):
            theirs = peer.shamir(length, n, threshold)
            found[f"flower_{name}_bytes"] = len(length)
            found[f"flower_{name}_share_ms"], found[f"flower_{name}_combine_ms"] = (1e3 * each for each in theirs)
            found[f"flower_{name}_to_ours"] = sum(theirs) / (warm_share + warm_combine)
            found[f"flower_{name}_to_first"] = sum(theirs) / (first_share + first_combine)
    return found


# --- memory


def memory(mode: str, n: int, s: int, d: int) -> dict:
    """Run a separate process, so that the peak is that of this round alone."""
    probe = [sys.executable, __file__, "--probe", mode, str(n), str(s), str(d)]
    return json.loads(subprocess.run(probe, check=True, capture_output=True, text=True).stdout)  # noqa: S603


def probe(mode: str, n: int, s: int, d: int) -> dict:
    """Compute a robust secure mean of all shards; besides the server, one client at a time is in memory."""
    update = np.random.default_rng(1).normal(0, 0.02, d).astype(np.float32)
    secrets = {client: os.urandom(32) for client in range(n)}
    roster = {client: public_key(secret) for client, secret in secrets.items()}
    states = dict.fromkeys(roster, b"")
    spent = [0.0]

    def exchange(requests: dict) -> Iterator[tuple[int, bytes]]:
        for client, request in requests.items():
            start = perf_counter()
            member = Member(id=client, signing_key=secrets[client], roster=roster, job="benchmark")
            given = contribution(update, client, key=os.urandom(32))
            answer = respond(
                member,
                states[client],
                request,
                model=MODEL,
                contribution=given,
                entropy=os.urandom(32),
                encapsulate=encapsulate,
            )
            assert answer.refusal is None, answer.refusal
            states[client] = answer.state
            spent[0] += perf_counter() - start
            yield client, answer.reply

    plan = assign_shards(roster, shards=n // s, epoch=0, seed=b"benchmark", min_size=s)
    task = Task(
        job="benchmark",
        round=0,
        model=MODEL,
        coordinates=d,
        encoding=ENCODING,
        roster=roster,
        protocol=Protocol(mode=mode),
    )
    before = peak_mib()
    start = perf_counter()
    means, audit = shard_means(exchange, plan, task)
    summed, wall = peak_mib(), perf_counter() - start
    assert len(audit.opened) == len(plan.shards), audit.missing
    FilterL2(contamination=0.05)(means)
    return {
        "mode": mode,
        "n": n,
        "s": s,
        "d": d,
        "before_mib": before,
        "peak_mib": summed,
        "peak_with_filter_mib": peak_mib(),
        "means_mib": means.nbytes / 2**20,
        "wall_s": wall,
        "server_s": wall - spent[0],
    }


def peak_mib() -> float:
    """Return the peak of this process; ru_maxrss would include that of its parent."""
    lines = [line.split() for line in _lines("/proc/self/status") if line.startswith("VmHWM")]
    return int(lines[0][1]) / 1024 if lines else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --- the peer


class Flower:
    """Flower's SecAgg+ functions, called as `secaggplus_mod` and `SecAggPlusWorkflow` call them."""

    RANGE, TARGET, CLIP = 1 << 32, 1 << 22, 0.1

    def __init__(self) -> None:
        os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
        import flwr.common.secure_aggregation.ndarrays_arithmetic as arithmetic
        from flwr.common import ndarray_to_bytes
        from flwr.common.secure_aggregation.crypto import shamir as their_shamir
        from flwr.common.secure_aggregation.quantization import quantize
        from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
        from flwr.supercore.primitives import asymmetric

        self.arithmetic, self.their_shamir, self.expand = arithmetic, their_shamir, pseudo_rand_gen
        self.quantize, self.to_bytes = quantize, ndarray_to_bytes
        self.private_key = asymmetric.private_key_to_bytes(asymmetric.generate_key_pairs()[0])

    def masks(self, s: int, d: int) -> Callable[[], list]:
        """Return the masking of one client of s: its own mask and s - 1 pairwise ones, keys given."""
        seeds = [os.urandom(32) for _ in range(s)]
        vector = [np.ones(1, np.int64), np.random.default_rng(1).integers(0, self.TARGET, d).astype(np.int32)]
        return lambda: self._masked(vector, seeds)

    def upload(self, s: int, update: np.ndarray) -> Callable[[], list[bytes]]:
        """Return quantizing, masking and writing."""
        seeds = [os.urandom(32) for _ in range(s)]

        def work() -> list[bytes]:
            scaled = self.arithmetic.parameters_multiply([update], 1.0)
            quantized = self.quantize(scaled, self.CLIP, self.TARGET)
            vector = self.arithmetic.factor_combine(self.TARGET, quantized)
            return [self.to_bytes(part) for part in self._masked(vector, seeds)]

        return work

    def _masked(self, vector: list, seeds: list[bytes]) -> list:
        shapes = [part.shape for part in vector]
        masked = self.arithmetic.parameters_addition(vector, self.expand(seeds[0], self.RANGE, shapes))
        for number, seed in enumerate(seeds[1:]):
            one = self.expand(seed, self.RANGE, shapes)
            add = self.arithmetic.parameters_addition if number % 2 else self.arithmetic.parameters_subtraction
            masked = add(masked, one)
        return self.arithmetic.parameters_mod(masked, self.RANGE)

    def shamir(self, secret: bytes, n: int, threshold: int) -> tuple[float, float]:
        """Time sharing and combining one secret."""
        shares = self.their_shamir.create_shares(secret, threshold, n)
        assert self.their_shamir.combine_shares(shares[:threshold]) == secret
        share = best(lambda: self.their_shamir.create_shares(secret, threshold, n), 3)
        return share, best(lambda: self.their_shamir.combine_shares(shares[:threshold]), 3)


def find_flower(folder: str | None) -> tuple["Flower | None", str]:
    if folder:
        sys.path.append(folder)
    try:
        peer = Flower()
    except ImportError as missing:
        return None, f"Flower is not measured: {missing}"
    import flwr

    return peer, f"Flower {getattr(flwr, '__version__', 'of unknown version')}"


# --- printing


def show(found: dict) -> None:
    machine = found["machine"]
    print(
        f"{machine['processor']}, {machine['cores']} cores; Python {machine['python']}, NumPy {machine['numpy']}, ",
        end="",
    )
    print(f"cryptography {machine['cryptography']}; {machine['peer']}")
    print("load average before and after (1 to 2 of it from this program): {:.1f}, {:.1f}".format(*machine["load"]))
    limit = found["limit"]
    print(f"limit: AES-256-CTR {limit['aes_gb_s']:.1f} GB/s, addition {limit['add_gb_s']:.0f} GB/s, one thread\n")
    for part, show_part in SHOW.items():
        if part in found:
            show_part(found[part])


def show_masking(rows: list[dict]) -> None:
    print("Masking alone (s masks over d words, milliseconds; ratios to the limit of one thread)\n")
    table(
        ["s", "d", "limit", "1 thread", "ratio", "2 threads", "ratio", "Flower", "/ 1 thread", "/ 2 threads"],
        [
            [
                *(r["s"], size(r["d"]), ms(r["limit_ms"]), ms(r["one_thread_ms"]), ratio(r["one_thread_to_limit"])),
                *(ms(r["two_threads_ms"]), ratio(r["two_threads_to_limit"]), ms(r["flower_ms"])),
                *(ratio(r["flower_to_one_thread"]), ratio(r["flower_to_two_threads"])),
            ]
            for r in rows
        ],
    )


def show_upload(r: dict) -> None:
    print(f"Update to upload, s = {r['s']}, d = {size(r['d'])}: encode, mask and write (milliseconds)\n")
    table(
        ["", "1 thread", "2 threads", "bytes per parameter", "Flower / 1 thread", "Flower / 2 threads"],
        [
            ["f2ed", ms(r["one_thread_ms"]), ms(r["two_threads_ms"]), f"{r['bytes'] / r['d']:.2f}", "", ""],
            [
                *("Flower", ms(r["flower_ms"]), "", f"{(r['flower_bytes'] or 0) / r['d']:.2f}"),
                *(ratio(r["flower_to_one_thread"]), ratio(r["flower_to_two_threads"])),
            ],
        ][: 2 if r["flower_ms"] else 1],
    )


def show_protocol(rows: list[dict]) -> None:
    print("The protocol (milliseconds per client, and of the server per shard; two threads)\n")
    table(
        [
            *("mode", "s", "d", "dropped", "client: keys and shares", "encode", "upload", "to limit"),
            *("server", "to limit", "bytes up: control", "per parameter"),
        ],
        [protocol_row(r) for r in rows],
    )


def show_shamir(r: dict) -> None:
    print(f"Shamir, {r['n']} shares, threshold {r['threshold']} (milliseconds)\n")
    rows = [
        ["f2ed, 32 bytes", ms(r["share_ms"]), ms(r["combine_ms"]), "", ""],
        ["f2ed, first of a shard", ms(r["first_share_ms"]), ms(r["first_combine_ms"]), "", ""],
    ]
    for name in ("seed", "key"):
        if f"flower_{name}_bytes" in r:
            f = {key.removeprefix(f"flower_{name}_"): value for key, value in r.items()}
            label = f"Flower, its {name} of {f['bytes']} bytes"
            rows.append([label, ms(f["share_ms"]), ms(f["combine_ms"]), ratio(f["to_ours"]), ratio(f["to_first"])])
    table(["", "share", "combine", "both / ours", "both / first"], rows)


def show_memory(rows: list[dict]) -> None:
    print("A robust secure mean of n clients: peak memory (MiB) of the server and one client at a time\n")
    table(
        ["mode", "n", "s", "d", "before", "shard means", "and FilterL2", "of it the means", "wall s", "server s"],
        [
            [
                *(r["mode"], r["n"], r["s"], size(r["d"]), f"{r['before_mib']:.0f}", f"{r['peak_mib']:.0f}"),
                *(f"{r['peak_with_filter_mib']:.0f}", f"{r['means_mib']:.0f}"),
                *(f"{r['wall_s']:.1f}", f"{r['server_s']:.1f}"),
            ]
            for r in rows
        ],
    )


SHOW = {
    "masking": show_masking,
    "upload": show_upload,
    "protocol": show_protocol,
    "shamir": show_shamir,
    "memory": show_memory,
}


def protocol_row(r: dict) -> list[str]:
    client, up = r["client_ms"], r["up_bytes"]
    control = sum(client.values()) - client["upload"] - client["encode"]
    payload = r["d"] * WORD
    return [
        r["mode"],
        r["s"],
        size(r["d"]),
        f"{r['dropped']}" + ("" if r["opened"] else ", closed"),
        ms(control),
        ms(client["encode"]),
        ms(client["upload"]),
        ratio(r["upload_to_limit"]),
        ms(r["server_total_ms"]),
        ratio(r["server_to_limit"]) if r["opened"] else "",
        sum(up.values()) - payload,
        f"{up['upload'] / r['d']:.2f}",
    ]


def table(head: list[str], rows: list[list]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(map(str, row)) + " |")
    print()


def ms(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"


def size(words: int) -> str:
    return f"{words // 10**6}M" if words >= 10**6 else f"{words // 1000}k"


def processor() -> str:
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peer", metavar="DIRECTORY")
    parser.add_argument("--parts", nargs="+", default=list(SHOW), choices=list(SHOW))
    parser.add_argument("--probe", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.probe:
        print(json.dumps(probe(asked.probe[0], *map(int, asked.probe[1:]))))
        return
    peer, peer_label = find_flower(asked.peer)
    sizes = [4, 10] if asked.quick else [4, 10, 100]
    lengths = [300_000, 1_000_000] if asked.quick else [300_000, 1_000_000, 10_000_000]
    crowd = (100, 10, 300_000) if asked.quick else (1000, 10, 1_000_000)
    limit, load = measure_limit(), [os.getloadavg()[0]]
    work = {
        "masking": lambda: list(masking(sizes, lengths, peer)),
        "upload": lambda: whole_upload(10, 1_000_000, peer),
        "protocol": lambda: list(protocol(sizes, lengths)),
        "shamir": lambda: secret_sharing(100, peer),
        "memory": lambda: [memory(mode, *crowd) for mode in MODES],
    }
    found = {
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "cryptography": cryptography.__version__,
            "peer": peer_label,
        },
        "limit": {"aes_gb_s": 1e-9 / limit.aes, "add_gb_s": 1e-9 / limit.add},
    } | {part: work[part]() for part in asked.parts}
    found["machine"]["load"] = [*load, os.getloadavg()[0]]
    if asked.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
