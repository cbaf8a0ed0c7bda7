import pytest

from f2ed.audit import draw_shard, invert
from f2ed.audit.images import match, psnr
from f2ed.audit.inconsistency import send_different_models
from f2ed.audit.server_view import as_pixels
from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.learning.models import Mlp


def victim_seen(data, members, *, bound):
    rng = stream(0, "lie", members)
    shard = draw_shard(data, members, 1, rng)
    outcome = send_different_models(Mlp((64,))(data.shape, 10, 0), shard, data, rng, bound=bound)
    true = as_pixels(shard[0].images, data.black, data.white)
    return outcome, float(psnr(true, match(true, invert(outcome.view, data.shape)))[0])


@pytest.mark.parametrize("members", [3, 8, 16])
def test_without_the_binding_a_lying_server_sees_its_victim_in_a_shard_of_any_size(digits, members):
    outcome, seen = victim_seen(digits, members, bound=False)
    assert outcome.opened
    assert seen > 60


@pytest.mark.parametrize("members", [3, 8, 16])
def test_with_the_binding_the_sum_is_noise_even_if_the_server_forges_the_tags(digits, members):
    outcome, seen = victim_seen(digits, members, bound=True)
    assert not outcome.opened
    assert "a sum with a coordinate of" in outcome.reason
    assert seen < 12


def test_nobody_takes_part_in_a_shard_of_two(digits):
    rng = stream(0, "two")
    with pytest.raises(ConfigError, match="hide one among honest others"):
        send_different_models(Mlp((16,))(digits.shape, 10, 0), draw_shard(digits, 2, 1, rng), digits, rng, bound=True)
