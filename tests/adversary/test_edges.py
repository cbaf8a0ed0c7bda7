"""The edges of what a client accepts: one step further is refused, and one step back is not."""

from io import BytesIO

import numpy as np
import pytest
from msgspec.structs import replace

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.pin import accept_weaker
from f2ed.deployment.round_mark import RoundMark
from f2ed.deployment.train_input import NamedArray, TrainInput, run_digest
from f2ed.protocol.primitives.ring import largest_bits
from f2ed.protocol.secagg import Member, public_key
from f2ed.protocol.secagg.checks import accept, check
from tests.protocol.secagg.shard_driver import make_terms, secret

FOUR = (1, 2, 3, 4)
KEYS = {client: secret("key", client) for client in FOUR}
ACCEPTED = {
    "the most bits": {"bits": largest_bits(32, 4)},
    "two honest members among colluders": {"colluders": 2, "threshold": 4, "min_crowd": 4},
    "one weighs as much as those it hides among": {"weights": (3, 1, 1, 1), "weight_cap": 3, "mode": "all-or-nothing"},
    "noise of all, in the clear": {"mode": "clear", "noise": 1.0, "carriers": 4, "threshold": 1, "min_crowd": 1},
    "groups in order": {"groups": ((1, 2), (3, 4))},
}
REFUSED = {
    "a bit more": {"bits": largest_bits(32, 4) + 1},
    "one honest member among colluders": {"colluders": 3, "threshold": 4, "min_crowd": 4},
    "a threshold without the colluders": {"colluders": 2, "threshold": 3, "min_crowd": 4},
    "a pair": {"members": (1, 2), "mode": "all-or-nothing", "threshold": 2, "min_crowd": 2},
    "one weighs more": {"weights": (4, 1, 1, 1), "weight_cap": 4, "mode": "all-or-nothing"},
    "groups out of order": {"groups": ((3, 4), (1, 2))},
    "a group out of order": {"groups": ((1, 2), (4, 3))},
}


def terms(change):
    whole = change.get("mode") == "all-or-nothing" and "members" not in change
    return replace(make_terms(FOUR), **({"threshold": 4, "min_crowd": 4} if whole else {}) | change)


@pytest.mark.parametrize("name", ACCEPTED)
def test_terms_at_the_edge_are_safe(name):
    check(terms(ACCEPTED[name]))


@pytest.mark.parametrize("name", REFUSED)
def test_terms_beyond_the_edge_are_refused(name):
    with pytest.raises(ConfigError):
        check(terms(REFUSED[name]))


def member(**fields):
    roster = {client: public_key(key) for client, key in KEYS.items()}
    return Member(id=1, signing_key=KEYS[1], roster=roster, job="test", **fields)


def test_a_member_derives_its_terms_from_round_and_length_and_follows_no_others():
    own, asked = make_terms(FOUR, round=3), []

    def derive(round_, length):
        asked.append((round_, length))
        return own

    assert accept(member(terms=derive), own) is own
    with pytest.raises(Refusal, match=r"states clip_value 2\.0 for round 3; this client's roster says 1\.0"):
        accept(member(terms=derive), replace(own, clip_value=2.0))
    with pytest.raises(Refusal, match="states noise -0"):
        accept(member(terms=derive), replace(own, noise=-0.0))
    assert asked == [(3, 20)] * 3


def test_a_long_lie_is_cut_short():
    own = make_terms(range(1, 41))
    with pytest.raises(Refusal) as refused:
        accept(member(terms=lambda *_: own), replace(own, members=own.members[:-1]))
    assert str(refused.value).count("…") == 2
    assert len(str(refused.value)) < 300


def test_a_member_asks_for_its_shard_in_this_round():
    accept(member(shard=lambda round_: FOUR if round_ == 5 else ()), make_terms(FOUR, round=5))


def test_the_first_rounds_of_a_roster(tmp_path):
    mark = RoundMark(tmp_path / "a.rounds", 5, 3)
    mark.check(5)
    mark.check(7)
    for wrong in (4, 8):
        with pytest.raises(Refusal):
            mark.check(wrong)


def test_an_acceptance_makes_a_folder_for_its_owner_alone(tmp_path):
    folder = tmp_path / "state" / "node"
    accept_weaker(folder, bytes(32))
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_run_is_bound_with_its_app_and_any_text():
    assert run_digest({}) == run_digest({}, b"")
    found = [run_digest({}), run_digest({}, b"app"), run_digest({"k": "\ud800"}), run_digest({"k": "\ud801"})]
    assert len(set(found)) == len(found)


def named(name="x", values=(1.0, 2.0), dtype=np.float32, shape=(2,)):
    stream, array = BytesIO(), np.array(values, dtype).reshape(shape)
    np.save(stream, array)
    return NamedArray(name, str(array.dtype), array.shape, "numpy.ndarray", stream.getvalue())


def given(*arrays):
    return TrainInput("train", "arrays", arrays, "config", {})


def test_coordinates_are_the_floats():
    assert (
        given(named(), named("n", (1, 2), np.int64), named("y", range(6), shape=(2, 3))).summary().plan().coordinates
        == 8
    )
    with pytest.raises(ConfigError, match="without a single array of floats"):
        given(named("n", (1, 2), np.int64)).summary().plan()
    for change in ({"dtype": "int64"}, {"shape": (3,)}, {"stype": "other"}, {"data": b"x"}):
        with pytest.raises(ConfigError, match="'x'"):
            named()._replace(**change).checked()


def test_layouts_and_models_differ_by_what_they_name():
    one, other = named(), named(values=(1.0, 3.0))
    layouts = [one, named("y"), named(dtype=np.float64), named(shape=(1, 2))]
    assert len({given(each).layout() for each in layouts}) == 4
    assert given(one).layout() == given(other).layout()
    assert len({given(each).model() for each in (*layouts, other)} | {given().model()}) == 6
