"""Real processes in the dropout-tolerant mode: a deployment of its own serves these tests, in their order."""

import pytest
from federation import NODES, Federation, dropped
from memory import Search, everywhere, on_disk, sent


@pytest.fixture(scope="module")
def tolerant(deployment):
    return Federation(deployment, "tolerant", **{"f2ed-mode": "dropout-tolerant"}).begin().ready()


def without(shard, client):
    return [each for each in shard if each != client]


def test_nodes_killed_before_their_upload_are_left_out_of_the_sum(deployment, tolerant, shards):
    one, other = shards
    tolerant.ask(**{f"c{one[0]}_Invite": "die", f"c{other[1]}_Peers": "die"})
    audit = tolerant.result()
    assert dropped(audit) == sorted([one[0], other[1]])
    assert audit["opened"] == [0, 1]
    assert audit["hidden_among"] == 3
    assert tolerant.equals_the_survivors([without(one, one[0]), without(other, other[1])])
    deployment.replace_node(one[0])
    deployment.replace_node(other[1])


def test_a_client_restarted_inside_a_round_is_in_the_sum(deployment, tolerant, shards):
    one, other = shards
    orders = {f"c{one[2]}_Delivery": "die", f"c{other[2]}_Peers": "garbage", f"c{other[0]}_Peers": "hold"}
    tolerant.ask(**orders)
    tolerant.until_heard(other[3], "Peers")
    deployment.stop(deployment.nodes[other[3]])
    deployment.start_node_again(other[3])
    tolerant.desk.put(f"release/{other[0]}.Peers")
    audit = tolerant.result()
    assert dropped(audit) == sorted([one[2], other[2]]), "one was killed, one sent garbage, and the restarted one is in"
    assert audit["opened"] == [0, 1]
    assert tolerant.equals_the_survivors([without(one, one[2]), without(other, other[2])])
    deployment.replace_node(one[2])


def test_nodes_killed_after_their_upload_are_in_the_sum(deployment, tolerant, shards):
    one, other = shards
    tolerant.ask(**{f"c{one[3]}_Alive": "die", f"c{other[0]}_Confirmations": "die"})
    audit = tolerant.result()
    assert dropped(audit) == sorted([one[3], other[0]])
    assert audit["opened"] == [0, 1]
    assert tolerant.equals_the_survivors([one, other])
    search = Search(range(NODES), rounds=[1, 2, 3])
    assert all(each.client == who for who, found in everywhere(deployment, search).items() for each in found)
    assert not any(sent(tolerant, search).values())
    assert not on_disk(deployment, search)
