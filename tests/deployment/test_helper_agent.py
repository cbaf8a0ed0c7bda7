"""The process of a helper: rounds through its socket, and what ends when it is killed, restored or lost."""

import os

import pytest
from msgspec.structs import replace

from f2ed.core.errors import ConfigError, Refusal
from f2ed.core.files import write_atomic
from f2ed.deployment.helper_agent import HelperAgent, carry
from f2ed.deployment.keyfiles import write_pair
from f2ed.deployment.roster import countersigned, helped_terms, read_roster, signed, write_roster
from f2ed.protocol.helpers import (
    HelpedClient,
    HelpersProtocol,
    MemoryRows,
    ServerTask,
    helped_mean,
    respond_as_client,
)
from f2ed.protocol.helpers.messages import Refused, decode
from f2ed.protocol.primitives.hybrid import encapsulate
from tests.deployment import test_roster_helpers as roster_of
from tests.protocol.helpers.federation import MODEL, updates

SIZE = 30
KEYS = {"mixer": roster_of.MIXER, "judge": roster_of.JUDGE}
SETTINGS = HelpersProtocol(sketch=96, tests=8, agreement="x25519", guard="nested", size=2)


class Helped:
    """A federation whose helpers are agents with folders of their own."""

    def __init__(self, folder):
        self.folder = folder
        helpers = replace(roster_of.HELPERS, settings=SETTINGS)
        made = signed(roster_of.draft(helpers), roster_of.AUTHORITY, **roster_of.SETTINGS)
        self.roster = countersigned(countersigned(made, KEYS["mixer"]), KEYS["judge"])
        write_pair(folder / "authority.key", roster_of.AUTHORITY)
        self.path = folder / "roster.json"
        write_roster(self.path, self.roster)
        self.agents = {role: self.agent(role) for role in KEYS}
        self.before = None

    def agent(self, role):
        settings = {"f2ed-key": self.folder / f"{role}.key", "f2ed-roster": self.path}
        settings |= {"f2ed-authority": self.folder / "authority.pub", "f2ed-state": self.folder / role}
        settings |= {"f2ed-keys": self.folder / role / "rounds"}
        return HelperAgent(role, KEYS[role], settings, uid=os.geteuid())

    def memory(self, role):
        return self.folder / role / f"{role}-{self.roster.lineage}.helper"

    def ask(self, role, run, request):
        return self.agents[role].answer(run, request).reply

    def run(self, round_=0, *, run=1, numbers=None, **changes):
        """Lead a round; return how it ended."""
        terms = replace(helped_terms(self.roster, self.roster.job(run), round_, coordinates=SIZE), **changes)
        numbers = numbers or updates(terms.members, SIZE)
        task = ServerTask(
            terms=terms,
            roster=self.roster.keys,
            model=MODEL,
            signing_key=roster_of.SERVER,
            entropy=os.urandom(32),
            rows=MemoryRows(),
            before=self.before,
        )
        server = helped_mean(task)
        requests = next(server)
        while True:
            replies = {
                party: self.ask(party, run, request)
                if party in KEYS
                else self.upload(party, request, numbers[party], run)
                for party, request in requests.items()
            }
            try:
                requests = server.send(replies) or server.send({})
            except StopIteration as stop:
                if stop.value.kept:
                    self.before = stop.value.kept
                return stop.value

    def upload(self, client, request, row, run):
        known = HelpedClient(
            id=client,
            signing_key=bytes([client + 1]) * 32,
            roster=self.roster.keys,
            policy=self.roster.digest,
            job=self.roster.job(run),
            parties=helped_terms(self.roster, "job", 0, coordinates=1).keys,
        )
        given = {"model": MODEL, "numbers": lambda _: row, "entropy": os.urandom(32), "encapsulate": encapsulate}
        return respond_as_client(known, b"", request, **given).reply


@pytest.fixture
def helped(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    made = Helped(tmp_path)
    for agent in made.agents.values():
        agent.start(first=True)
    return made


def test_rounds_of_two_runs_and_a_restart_in_between(helped):
    assert helped.run(0).mean is not None
    helped.agents = {role: helped.agent(role) for role in KEYS}
    for agent in helped.agents.values():
        assert agent.start(first=False) == helped.roster
    assert helped.run(1, run=2).mean is not None
    assert helped.run(2, run=1).mean is not None


def test_a_new_run_begins_no_round_again_and_forgets_no_strike(helped):
    assert helped.run(3).mean is not None
    assert "is not after epoch 0, round 3" in helped.run(3, run=2).aborted
    loud = updates(helped.roster.keys, SIZE)
    for client in (4, 5, 6):
        loud[client] = loud[client] * 0 + 2**40
    assert helped.run(4, numbers=loud).struck == (4, 5, 6)
    assert "client 4: it has a strike in this epoch" in helped.run(5, run=9).aborted


def test_an_agent_without_its_memory_does_not_start_and_answers_nothing(helped):
    helped.run(0)
    helped.memory("mixer").unlink()
    with pytest.raises(ConfigError, match=r"this mixer has no memory in .* --first"):
        helped.agents["mixer"].start(first=False)
    assert "it was lost" in helped.run(1).aborted
    assert "it was lost" in helped.run(1, run=2).aborted
    assert not helped.memory("mixer").exists()


def test_another_federation_has_a_memory_of_its_own(helped):
    helped.run(0)
    before = helped.memory("mixer").read_bytes()
    other = signed(replace(roster_of.draft(), name="other"), roster_of.AUTHORITY, **roster_of.SETTINGS)
    write_roster(helped.path, countersigned(countersigned(other, KEYS["mixer"]), KEYS["judge"]))
    agent = helped.agent("mixer")
    agent._settings["f2ed-state"] = helped.folder / "elsewhere"
    with pytest.raises(ConfigError, match=f"no memory in .*mixer-{other.lineage}.helper"):
        agent.start(first=False)
    assert other.lineage != helped.roster.lineage
    assert helped.memory("mixer").read_bytes() == before


def test_a_second_first_start_is_refused(helped):
    with pytest.raises(ConfigError, match="exists: this mixer"):
        helped.agents["mixer"].start(first=True)


@pytest.mark.parametrize("role", ["mixer", "judge"])
@pytest.mark.parametrize("run", [1, 2])
def test_a_memory_from_a_backup_is_found_out_also_in_a_new_run(helped, role, run):
    helped.run(0)
    backup = helped.memory(role).read_bytes()
    helped.run(1)
    write_atomic(helped.memory(role), backup)
    assert "the state is an old copy" in helped.run(2, run=run).aborted


def test_other_terms_than_the_signed_ones_are_refused(helped):
    assert "differ from the roster 'clinics' (serial 1) in spot" in helped.run(0, spot=1).aborted
    assert helped.run(0).mean is not None


def test_a_key_that_the_roster_does_not_name_is_refused(helped):
    settings = helped.agents["judge"]._settings
    with pytest.raises(Refusal, match="names another key for the mixer"):
        HelperAgent("mixer", KEYS["judge"], settings, uid=0).start(first=True)


def test_a_roster_that_was_not_countersigned_is_answered_with_a_refusal(helped):
    bare = replace(read_roster(helped.path), countersignatures=())
    write_roster(helped.path, bare)
    assert "has not countersigned it" in helped.run(0).aborted


def test_a_broken_memory_is_no_matter_for_the_server(helped):
    write_atomic(helped.memory("judge"), b"garbage")
    aborted = helped.run(0).aborted
    assert "not set up; its own log says why" in aborted
    assert "garbage" not in aborted


def test_a_round_through_the_socket(helped, tmp_path):
    sockets = {role: tmp_path / f"{role}.sock" for role in KEYS}
    for role, agent in helped.agents.items():
        agent.listen(sockets[role])
    helped.ask = lambda role, run, request: carry(str(sockets[role]), run, request).reply
    assert helped.run(0).mean is not None


def test_another_user_gets_no_answer(helped, tmp_path):
    agent = helped.agent("mixer")
    agent._uid = os.geteuid() + 1
    agent.listen(tmp_path / "mixer.sock")
    with pytest.raises(ConfigError, match="f2ed helper must be running and allow this user"):
        carry(str(tmp_path / "mixer.sock"), 1, b"request")


def test_nobody_listening_is_said(tmp_path):
    with pytest.raises(ConfigError, match="gave no answer"):
        carry(str(tmp_path / "none.sock"), 1, b"request")


def test_garbage_is_refused_and_changes_nothing(helped):
    before = helped.memory("mixer").read_bytes()
    reply = helped.agents["mixer"].answer(1, b"garbage").reply
    assert decode((Refused,), reply).reason
    assert helped.memory("mixer").read_bytes() == before
