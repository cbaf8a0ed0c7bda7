"""Which app a node runs, as the launcher states it."""

import os

import msgspec
import pytest

from f2ed.core.errors import Refusal
from f2ed.deployment.roster import App, Roster
from f2ed.deployment.running_app import APP, running_app

ROSTER = Roster(name="clinics", authority=bytes(32), apps=(App(b"1" * 32, "hospital/app 1.0.0"),))
UNPINNED = Roster(name="clinics", authority=bytes(32), accepted=("unpinned-app",))


def test_an_approved_app_is_known_by_its_hash():
    assert running_app({APP: (b"1" * 32).hex()}, ROSTER) == b"1" * 32


def test_another_app_is_refused():
    with pytest.raises(Refusal, match="is not approved"):
        running_app({APP: (b"2" * 32).hex()}, ROSTER)


@pytest.mark.parametrize("environ", [{}, {APP: ""}, {APP: "1"}, {APP: "zz" * 32}, {APP: "11" * 31}])
@pytest.mark.parametrize("apps", [ROSTER.apps, ()])
def test_a_node_that_does_not_know_its_app_is_refused(environ, apps):
    with pytest.raises(Refusal, match="start it with f2ed node"):
        running_app(environ, msgspec.structs.replace(ROSTER, apps=apps))


def test_a_roster_may_accept_that_the_app_is_not_known():
    assert running_app({}, UNPINNED) == b""
    both = msgspec.structs.replace(ROSTER, accepted=("unpinned-app",))
    assert running_app({}, both) == b""


def test_a_hash_that_is_stated_is_used_all_the_same():
    stated = os.urandom(32)
    assert running_app({APP: stated.hex()}, UNPINNED) == stated
    with pytest.raises(Refusal, match="is not approved"):
        running_app({APP: stated.hex()}, msgspec.structs.replace(ROSTER, accepted=("unpinned-app",)))
