"""What a node signs to say who it is: a statement for one run, one node, one client and one question."""

import pytest

from f2ed.deployment.hello import hello_text

STATED = {"job": "clinics.1/ab/7", "node": 5, "client": 2, "run_config": b"r" * 32, "last": 3, "nonce": b"n" * 32}
OTHERS = {"job": "clinics.1/ab/8", "node": 6, "client": 3, "run_config": b"s" * 32, "last": 4, "nonce": b"m" * 32}


@pytest.mark.parametrize("name", STATED)
def test_a_statement_is_good_for_nothing_else(name):
    """Else a server could pass off the answer of one node, run or client as that of another."""
    assert hello_text(**STATED) != hello_text(**STATED | {name: OTHERS[name]})


def test_node_and_client_are_not_mistaken_for_each_other():
    assert hello_text(**STATED | {"node": 2, "client": 5}) != hello_text(**STATED)


def test_it_is_no_other_signature_of_the_protocol():
    assert b"f2ed hello 3" in hello_text(**STATED)
