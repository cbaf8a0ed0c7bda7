"""Real processes: a SuperLink and eight SuperNodes on loopback, with TLS and node authentication, in two shards.

One deployment serves all tests of this file, in their order: starting it costs more than a round. Every model is
compared, to the bit, with the one that the survivors alone give.
"""

from contextlib import suppress
from pathlib import Path

import pytest

from f2ed.flower.local_deployment import Deployment
from f2ed.flower.processes import descendants
from f2ed.protocol.dp import dp_epsilon
from tests.real_deployment.federation import APP, Federation, wait_until
from tests.real_deployment.memory import Search

NODES, STRANGER = 8, 8


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deployment")
    with Deployment(folder, nodes=NODES, shards=2, min_crowd=3, app=APP, strangers=1, spares=5) as running:
        yield running


@pytest.fixture(scope="module")
def shards(deployment):
    return deployment.roster.assignment(0).shards


def without(shard, client):
    return [each for each in shard if each != client]


def dropped(record):
    return sorted(record.dropped)


# In order of time: a run of the mode all-or-nothing, whose server is killed; the run that goes on after it; a run of
# the tolerant mode; a run with noise.


@pytest.fixture(scope="module")
def first(deployment):
    settings = {"f2ed-mode": "all-or-nothing", "f2ed-checkpoint": str(deployment.folder / "model.checkpoint")}
    run = Federation(deployment, "first", **settings, **{"plain-first": True})
    run.desk.put("orders/0.plain", "hold")
    return run.begin()


@pytest.fixture(scope="module")
def server_killed(deployment, first):
    """Kill the server after the first run's round, which is led here if no test that was selected has done so."""
    if first.round == 0:
        first.desk.put("release/0.plain")
        first.ready()
        first.ask()
        first.result()
    deployment.kill(deployment.superlink)
    deployment.start_superlink()


@pytest.fixture(scope="module")
def again(deployment, server_killed):  # noqa: ARG001  it continues after that
    settings = {"f2ed-mode": "all-or-nothing", "f2ed-checkpoint": str(deployment.folder / "model.checkpoint")}
    run = Federation(deployment, "again", after=1, **settings).begin().ready()
    yield run
    run.end()


@pytest.fixture(scope="module")
def tolerant(deployment):
    return Federation(deployment, "tolerant", **{"f2ed-mode": "dropout-tolerant"}).begin().ready()


@pytest.fixture(scope="module")
def regrouped(tolerant):
    """Return the shards of the tolerant run, for which the authority made groups of one client each."""
    return tolerant.deployment.roster.assignment(0).shards


@pytest.fixture(scope="module")
def noisy(deployment):
    run = (
        Federation(deployment, "noisy", **{"f2ed-mode": "all-or-nothing", "f2ed-noise-multiplier": 1.0}).begin().ready()
    )
    yield run
    run.end()


def everywhere(deployment, search):
    """Search the memory of the server's processes and of each node's; return what was found where."""
    owners = {"server": deployment.superlink} | deployment.nodes
    try:
        return {who: set().union(*map(search.in_process, family(process))) for who, process in owners.items()}
    except PermissionError:
        pytest.skip("on this machine nobody may read the memory of a process, not even of one that they started")


def family(process):
    return [process.pid, *descendants([process.pid])]


def sent(run, search):
    """Search all messages as the server and each node saw them, request and reply, serialized."""
    found = {client: search.in_file(run.desk.path(f"wire/node_{client}")) for client in range(NODES)}
    return found | {"server": search.in_file(run.desk.path("wire/server"))}


def on_disk(deployment, search):
    """Search what the SuperLink keeps, and all logs."""
    files = [*deployment.folder.glob("superlink.db*"), *deployment.folder.glob("*.log")]
    assert len(files) > NODES
    return set().union(*map(search.in_file, files))


def test_the_search_finds_plain_updates_where_nothing_protects_them(deployment, first):
    for client in range(1, NODES):
        first.until_heard(client, "plain")
    search = Search(range(NODES), rounds=[0])
    try:
        inside = everywhere(deployment, search)
    finally:
        first.desk.put("release/0.plain")
    for found in (inside, sent(first, search)):
        assert {each.client for each in found["server"]} >= set(range(1, NODES))
    assert all(found for who, found in sent(first, search).items() if who != 0)


def test_no_plain_update_is_in_any_process_but_its_own(deployment, first, shards):
    first.ready()
    first.ask(c0_AskUpload="hold")
    for client in range(1, NODES):
        first.until_heard(client, "AskUpload")
    first.until("held/0.AskUpload")
    search = Search(range(NODES), rounds=[1])
    # The server has seven of eight uploads now, and the eighth client is about to send its own.
    try:
        inside = everywhere(deployment, search)
    finally:
        first.desk.put("release/0.AskUpload")
        record = first.result()
    assert {each.client for each in inside[0]} == {0}, "the search sees nothing"
    assert all(each.client == who for who, found in inside.items() for each in found)
    inside = everywhere(deployment, search)
    assert all(each.client == who for who, found in inside.items() for each in found)
    assert not any(sent(first, search).values())
    assert not on_disk(deployment, search)
    assert record.crowd == 4
    assert first.equals_the_survivors(shards)


def test_nothing_listens_beyond_loopback(deployment, first):
    first.until("ended/1")
    mine = set()
    for process in (deployment.superlink, *deployment.nodes.values()):
        for pid in family(process):
            for path in Path(f"/proc/{pid}/fd").glob("*"):
                with suppress(FileNotFoundError):  # Closed meanwhile.
                    mine.add(path.readlink().name)
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, address, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in mine:
                listening.append(address.partition(":")[0])
    assert set(listening) == {"0100007F"}, "127.0.0.1, as the kernel writes it"
    assert len(listening) >= 1 + NODES


def test_a_node_whose_key_is_not_on_the_roster_took_no_part(deployment, first):
    # The SuperLink lets it in, the protocol does not.
    assert first.round == 1
    refused = "f2ed: this node refused: this node's key is not on the roster"
    wait_until(lambda: refused in deployment.log(f"node_{STRANGER}"))
    assert "leaves masked" not in deployment.log(f"node_{STRANGER}")
    assert "leaves masked" in deployment.log("node_0")


def test_a_server_that_was_killed_between_rounds_goes_on_from_its_checkpoint(first, again):
    assert again.model(1).tobytes() == first.model(1).tobytes()


def test_a_node_killed_when_asked_for_its_key_closes_its_shard_and_no_other(again, shards):
    one, other = shards
    again.ask(**{f"c{one[0]}_AskKey": "die"})
    record = again.result()
    assert dropped(record) == [one[0]]
    assert list(record.excluded) == [0]
    assert again.equals_the_survivors([other])


@pytest.mark.nightly
def test_a_client_restarted_between_its_key_and_its_upload_goes_on_with_its_key(deployment, again, shards):
    one, other = shards
    if deployment.nodes[one[0]].poll() is not None:  # The test before killed it, unless it was not selected.
        deployment.replace_node(one[0])
    # A peer that takes its time keeps the server from going on before the client is back.
    again.ask(**{f"c{one[1]}_AskKey": "hold", f"c{other[0]}_AskUpload": "garbage"})
    again.until_heard(one[2], "AskKey")
    deployment.stop(deployment.nodes[one[2]])
    deployment.start_node_again(one[2])
    again.desk.put(f"release/{one[1]}.AskKey")
    record = again.result()
    assert dropped(record) == [other[0]], "only the one that sent garbage"
    assert list(record.excluded) == [1]
    assert again.equals_the_survivors([one])


@pytest.mark.nightly
def test_a_node_killed_when_asked_for_its_upload_closes_its_shard_and_no_other(deployment, again, shards):
    one, other = shards
    again.ask(**{f"c{other[1]}_AskUpload": "die"})
    record = again.result()
    # The shard that opened before has its keys: its round is one exchange.
    assert [again.desk.read(f"sent/{client}.AskUpload") is not None for client in one] == [True] * 4
    assert [again.desk.read(f"sent/{client}.AskKey") for client in one] == [None] * 4
    assert dropped(record) == [other[1]]
    assert list(record.excluded) == [1]
    assert again.equals_the_survivors([one])
    deployment.replace_node(other[1])


@pytest.mark.nightly
def test_a_node_that_hangs_is_left_behind_when_its_time_is_up(deployment, again, shards):
    one, other = shards
    # On a machine that is busy everything takes longer, and so does the deadline.
    again.ask(deadline=30 + 2 * again.seconds, **{f"c{one[3]}_train": "hang"})
    record = again.result()
    assert dropped(record) == [one[3]]
    assert "late" in record.dropped[one[3]]
    assert list(record.excluded) == [0]
    assert again.equals_the_survivors([other])
    deployment.stop(deployment.nodes[one[3]])
    deployment.start_node_again(one[3])


@pytest.mark.nightly
def test_a_node_whose_privacy_budget_is_spent_closes_its_shard_and_no_other(deployment, shards, request):
    _, other = shards
    # Enough for one update, and not for two.
    enough = {
        "f2ed-dp-epsilon": f"{1.1 * dp_epsilon(0.5, 1e-5):.3f}",
        "f2ed-ledger": str(deployment.folder / "spent.json"),
    }
    deployment.stop(deployment.nodes[other[0]])
    deployment.start_node_again(other[0], settings=enough)
    noisy = request.getfixturevalue("noisy")
    noisy.ask()
    record = noisy.result()
    assert not record.dropped
    assert record.excluded == {}
    assert 0 < record.max_dp_epsilon <= float(enough["f2ed-dp-epsilon"])
    spent = (deployment.folder / "spent.json").read_bytes()
    assert "this node's epsilon is now at most" in deployment.log(f"node_{other[0]}")
    noisy.ask()
    record = noisy.result()
    assert dropped(record) == [other[0]]
    assert "its budget is" in record.dropped[other[0]]
    assert list(record.excluded) == [1]
    assert (deployment.folder / "spent.json").read_bytes() == spent
    deployment.stop(deployment.nodes[other[0]])
    deployment.start_node_again(other[0])


@pytest.mark.nightly
def test_in_the_tolerant_mode_nodes_killed_before_their_upload_are_left_out_of_the_sum(deployment, tolerant, regrouped):
    one, other = regrouped
    tolerant.ask(**{f"c{one[0]}_Invite": "die", f"c{other[1]}_Peers": "die"})
    record = tolerant.result()
    assert dropped(record) == sorted([one[0], other[1]])
    assert record.excluded == {}
    assert record.crowd == 3
    assert tolerant.equals_the_survivors([without(one, one[0]), without(other, other[1])])
    deployment.replace_node(one[0])
    deployment.replace_node(other[1])


@pytest.mark.nightly
def test_in_the_tolerant_mode_a_client_restarted_inside_a_round_is_in_the_sum(deployment, tolerant, regrouped):
    one, other = regrouped
    orders = {f"c{one[2]}_Delivery": "die", f"c{other[2]}_Peers": "garbage", f"c{other[0]}_Peers": "hold"}
    tolerant.ask(**orders)
    tolerant.until_heard(other[3], "Peers")
    deployment.stop(deployment.nodes[other[3]])
    deployment.start_node_again(other[3])
    tolerant.desk.put(f"release/{other[0]}.Peers")
    record = tolerant.result()
    assert dropped(record) == sorted([one[2], other[2]]), (
        "one was killed, one sent garbage, and the restarted one is in"
    )
    assert record.excluded == {}
    assert tolerant.equals_the_survivors([without(one, one[2]), without(other, other[2])])
    deployment.replace_node(one[2])


@pytest.mark.nightly
def test_in_the_tolerant_mode_nodes_killed_after_their_upload_are_in_the_sum(deployment, tolerant, regrouped):
    one, other = regrouped
    tolerant.ask(**{f"c{one[3]}_Alive": "die", f"c{other[0]}_Confirmations": "die"})
    record = tolerant.result()
    assert dropped(record) == sorted([one[3], other[0]])
    assert record.excluded == {}
    assert tolerant.equals_the_survivors([one, other])
    search = Search(range(NODES), rounds=[1, 2, 3])
    assert all(each.client == who for who, found in everywhere(deployment, search).items() for each in found)
    assert not any(sent(tolerant, search).values())
    assert not on_disk(deployment, search)
