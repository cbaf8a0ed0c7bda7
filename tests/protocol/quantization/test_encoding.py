"""Fixed point: what is refused, what is clipped and counted, and that the mean comes back."""

from math import inf, nan

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from f2ed.core.errors import ConfigError, PeerError
from f2ed.core.randomness import stream
from f2ed.protocol.primitives.ring import WIDTHS, Ring, largest_bits
from f2ed.protocol.quantization.encoding import Encoding, decode_mean, encode, shorten

KEY = bytes(range(32))


def keys(count):
    return [bytes([i]) * 32 for i in range(count)]


def total_of(updates, encoding, clients=None, weights=None):
    clients = clients or len(updates)
    weights = weights or [1.0] * len(updates)
    words = [
        encode(x, encoding, clients=clients, key=key, weight=w)
        for x, key, w in zip(updates, keys(len(updates)), weights, strict=True)
    ]
    return np.add.reduce(words, dtype=words[0].dtype)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_update_that_is_not_finite_is_refused(bad):
    with pytest.raises(ConfigError, match="1 coordinates that are NaN or infinite"):
        encode(np.array([0.0, bad]), Encoding(clip_value=1.0), clients=4, key=KEY)


def test_a_norm_beyond_float64_is_refused_though_every_coordinate_is_finite():
    with pytest.raises(ConfigError, match="beyond the range"):
        encode(np.array([1e200, 1e200]), Encoding(clip_value=1.0), clients=4, key=KEY)


@pytest.mark.parametrize("update", [np.zeros((2, 2)), np.zeros(3, np.int64)])
def test_only_flat_vectors_of_floats_are_encoded(update):
    with pytest.raises(ConfigError, match="flatten it"):
        encode(update, Encoding(clip_value=1.0), clients=4, key=KEY)


@pytest.mark.parametrize("clip", [0.0, -1.0, inf, nan])
def test_a_clip_must_be_positive_and_finite(clip):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"clip_value": clip}, Encoding)
    with pytest.raises(ConfigError, match="positive and finite"):
        Encoding(clip_value=clip)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"clip_norm": 0.0}, "a clip_norm of"),
        ({"clip_norm": nan}, "a clip_norm of"),
        ({"bits": 1}, "2 to 48"),
        ({"ring": 8}, "rings of"),
    ],
)
def test_settings_made_in_python_are_held_to_the_bounds_of_files(settings, why):
    with pytest.raises(ConfigError, match=why):
        Encoding(clip_value=1.0, **settings)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"clip_value": 1.0, **settings}, Encoding)


@pytest.mark.parametrize(
    ("bits", "clients", "packed", "ring"),
    [
        (20, 4, False, 32),
        (20, 4, True, 24),
        (20, 17, True, 32),
        (12, 4, False, 16),
        (12, 5, False, 32),
        (20, 1024, False, 32),
        (20, 1025, False, 64),
        (21, 100, False, 32),
        (30, 10, False, 64),
    ],
)
def test_the_ring_is_the_smallest_that_cannot_overflow_and_leaves_two_bits_unless_packed(bits, clients, packed, ring):
    assert Encoding(clip_value=1.0, bits=bits, packed=packed).ring_for(clients) == Ring(ring)


def test_an_overflow_is_refused_with_the_largest_number_of_bits_that_fits():
    with pytest.raises(ConfigError, match="10 terms of 30 bits overflow a 32-bit sum; use at most 28 bits"):
        Encoding(clip_value=1.0, bits=30, ring=32).ring_for(10)
    assert Encoding(clip_value=1.0, bits=28, ring=32).ring_for(10) == Ring(32)


@settings(deadline=None)
@given(st.sampled_from(WIDTHS), st.integers(1, 5000))
def test_largest_bits_is_exactly_where_a_sum_begins_to_wrap(width, clients):
    bits = largest_bits(width, clients)
    assert 2 * clients * (2 ** (bits - 1) - 1) < 2**width
    assert 2 * clients * (2**bits - 1) >= 2**width


@settings(deadline=None)
@given(
    st.sampled_from(
        [(10, 16, False), (20, None, False), (20, None, True), (21, None, False), (22, 32, False), (40, None, False)]
    ),
    st.integers(1, 12),
    st.integers(0, 2**32),
)
def test_the_mean_comes_back_to_within_one_step(setting, clients, seed):
    bits, ring, packed = setting
    encoding = Encoding(clip_value=2.0, bits=bits, ring=ring, packed=packed)
    updates = stream(seed, "updates").uniform(-2, 2, (clients, 37))
    decoded = decode_mean(total_of(updates, encoding), encoding, clients=clients, survivors=clients)
    assert np.abs(decoded.mean - updates.mean(axis=0)).max() <= encoding.unit + 1e-6
    assert decoded.clipped == (0, 0)


def test_coordinates_at_the_clip_are_exact_and_not_counted_as_clipped():
    encoding = Encoding(clip_value=0.3, bits=20)
    update = np.array([0.3, -0.3, 0.0], np.float32)
    words = encode(update, encoding, clients=4, key=KEY)
    assert words[:3].view(np.int32).tolist() == [encoding.largest, -encoding.largest, 0]
    assert decode_mean(words, encoding, clients=4, survivors=1).clipped == (0, 0)


def test_clipped_coordinates_and_shortened_updates_are_counted_over_the_shard():
    encoding = Encoding(clip_value=1.0, clip_norm=5.0, bits=4)
    updates = [np.full(100, 0.1), np.r_[np.full(3, 2.0), np.zeros(97)], np.full(100, 9.0)]
    decoded = decode_mean(total_of(updates, encoding), encoding, clients=3, survivors=3)
    assert decoded.clipped == (3, 1)


def test_an_update_of_enormous_coordinates_is_clipped_without_overflow():
    encoding = Encoding(clip_value=1e-20, bits=20)
    words = encode(np.full(5, 3e38, np.float32), encoding, clients=1, key=KEY)
    assert words[:5].tolist() == [encoding.largest] * 5


def test_the_l2_clip_keeps_the_direction():
    update = np.array([30.0, 40.0])
    encoding = Encoding(clip_value=10.0, clip_norm=5.0)
    assert shorten(update, encoding) == pytest.approx(0.1)
    mean = decode_mean(encode(update, encoding, clients=1, key=KEY), encoding, clients=1, survivors=1).mean
    assert mean == pytest.approx([3.0, 4.0], abs=2 * encoding.unit)


@pytest.mark.parametrize("bits", [8, 20, 30])
def test_rounding_is_unbiased(bits):
    """The mean error of 200,000 roundings is below five of its standard deviations, of at most half a step each."""
    encoding = Encoding(clip_value=1.0, bits=bits)
    update = stream(1, "fractions").uniform(-1, 1, 200_000)
    if bits <= 21:
        update = update.astype(np.float32)
    words = encode(update, encoding, clients=1, key=KEY)[: len(update)]
    steps = Ring(encoding.ring_for(1).bits).signed(words) - update.astype(np.float64) / encoding.unit
    assert abs(steps.mean()) < 5 * 0.5 / np.sqrt(len(update))
    assert np.abs(steps).max() < 1 + 2.0 ** (bits - 20)


def test_rounding_depends_on_the_key_alone():
    update = np.full(1000, 0.123, np.float32)
    encode_with = lambda key: encode(update, Encoding(clip_value=1.0), clients=3, key=key).tobytes()  # noqa: E731
    assert encode_with(KEY) == encode_with(KEY) != encode_with(bytes(32))


def test_long_updates_are_encoded_alike_in_every_block():
    update = stream(2, "long").uniform(-1, 1, 200_001).astype(np.float32)
    encoding = Encoding(clip_value=1.0)
    decoded = decode_mean(encode(update, encoding, clients=1, key=KEY), encoding, clients=1, survivors=1)
    assert np.abs(decoded.mean - update).max() <= 1.001 * encoding.unit


def test_public_weights_are_applied_before_encoding_and_divided_out():
    encoding = Encoding(clip_value=1.0)
    updates, weights = [np.full(4, 0.8), np.full(4, -0.4)], [1.0, 0.25]
    total = total_of(updates, encoding, weights=weights)
    decoded = decode_mean(total, encoding, clients=2, survivors=2, weight=1.25)
    assert decoded.mean == pytest.approx((0.8 - 0.1) / 1.25, abs=2 * encoding.unit)


@pytest.mark.parametrize("weight", [0.0, -0.5, 1.5])
def test_a_weight_outside_its_cap_is_refused(weight):
    with pytest.raises(ConfigError, match="its cap"):
        encode(np.zeros(3), Encoding(clip_value=1.0), clients=2, key=KEY, weight=weight)


def test_a_sum_out_of_range_is_refused():
    encoding = Encoding(clip_value=1.0)
    total = total_of([np.ones(5)] * 3, encoding, clients=4)
    total[2] += 1
    with pytest.raises(PeerError, match="3 clipped updates reach at most"):
        decode_mean(total, encoding, clients=4, survivors=3)


def test_a_mean_longer_than_the_l2_clip_is_refused():
    generous, strict = Encoding(clip_value=1.0), Encoding(clip_value=1.0, clip_norm=1.0)
    total = total_of([np.full(100, 0.2)] * 3, generous)
    assert decode_mean(total, generous, clients=3, survivors=3).clipped == (0, 0)
    with pytest.raises(PeerError, match="norm 2; updates clipped to 1"):
        decode_mean(total, strict, clients=3, survivors=3)


def test_garbage_is_caught():
    encoding = Encoding(clip_value=1.0)
    garbage = stream(3, "garbage").integers(0, 2**32, encoding.length(100), dtype=np.uint32)
    with pytest.raises(PeerError):
        decode_mean(garbage, encoding, clients=10, survivors=10)


def test_impossible_clip_counts_are_refused():
    encoding = Encoding(clip_value=1.0)
    total = total_of([np.zeros(10)] * 3, encoding)
    total[-1] = 4
    with pytest.raises(PeerError, match="4 shortened updates"):
        decode_mean(total, encoding, clients=3, survivors=3)


def test_a_sum_of_a_length_that_no_update_has_is_refused():
    with pytest.raises(ConfigError, match="a sum of 1 words"):
        decode_mean(np.zeros(1, np.uint32), Encoding(clip_value=1.0), clients=3, survivors=3)


def test_the_mean_can_be_written_in_place():
    encoding = Encoding(clip_value=1.0)
    row = np.empty(6, np.float32)
    decoded = decode_mean(total_of([np.full(6, 0.5)], encoding), encoding, clients=1, survivors=1, out=row)
    assert decoded.mean is row
    assert row == pytest.approx(0.5, abs=encoding.unit)


def noisy_sum(encoding, updates, clients):
    words = [encode(x, encoding, clients=clients, key=key) for x, key in zip(updates, keys(len(updates)), strict=True)]
    return np.add.reduce(words, dtype=words[0].dtype)


def test_the_sum_of_the_fewest_carries_the_stated_noise_and_of_more_it_carries_more():
    plain = Encoding(clip_value=1.0, clip_norm=0.5, bits=16)
    encoding = plain.noisy(2.0, coordinates=50_000, carriers=3)
    wanted = 2.0 * plain.sensitivity(50_000) * plain.unit
    for members in (3, 5):
        total = noisy_sum(encoding, [np.zeros(50_000, np.float32)] * members, 5)
        mean = decode_mean(total, encoding, clients=5, survivors=members).mean
        found = float(mean.std()) * members
        assert found == pytest.approx(wanted * (members / 3) ** 0.5, rel=4 * (0.5 / 50_000) ** 0.5)


@pytest.mark.parametrize("ring", [16, 24, 32, 64])
def test_noise_in_any_ring_comes_back_signed(ring):
    encoding = Encoding(clip_value=1.0, clip_norm=1.0, bits=8, ring=ring).noisy(0.5, coordinates=10_000, carriers=2)
    total = noisy_sum(encoding, [np.full(10_000, 0.005, np.float32)] * 2, 2)
    mean = decode_mean(total, encoding, clients=2, survivors=2).mean
    assert float(mean.mean()) == pytest.approx(0.005, abs=4 * float(mean.std()) / 100)
    assert mean.min() < 0 < mean.max()


def test_noise_without_an_l2_clip_is_refused():
    with pytest.raises(ConfigError, match="noise without a clip_norm"):
        Encoding(clip_value=1.0).noisy(1.0, coordinates=10, carriers=3)


def test_no_noise_leaves_the_encoding_as_it_is():
    encoding = Encoding(clip_value=1.0)
    assert encoding.noisy(0.0, coordinates=10, carriers=3) is encoding


@pytest.mark.parametrize("deviation", [-1.0, inf, nan])
def test_a_deviation_must_be_finite(deviation):
    with pytest.raises(ConfigError, match="0 for none"):
        Encoding(clip_value=1.0, clip_norm=1.0, deviation=deviation)


def test_a_ring_too_narrow_for_the_noise_is_refused():
    quiet = Encoding(clip_value=1.0, clip_norm=1.0, bits=13, ring=16)
    assert quiet.ring_for(4) == Ring(16)
    with pytest.raises(ConfigError, match=r"with noise of .* steps overflow a 16-bit sum"):
        quiet.noisy(1.0, coordinates=10, carriers=4).ring_for(4)
    assert Encoding(clip_value=1.0, clip_norm=1.0, bits=13).noisy(1.0, coordinates=10, carriers=4).ring_for(4) == Ring(
        32
    )


def test_noise_that_is_less_than_half_a_step_is_refused():
    with pytest.raises(ConfigError, match="use more fixed-point bits"):
        Encoding(clip_value=1.0, clip_norm=1.0, bits=2).noisy(0.1, coordinates=1, carriers=4)


def test_no_encoded_update_is_longer_than_the_sensitivity():
    """Halves are the worst case: every coordinate is rounded by half a step, up or down."""
    encoding = Encoding(clip_value=127.0, clip_norm=20.0, bits=8)
    update = np.full(1600, 0.5)
    lengths = []
    for key in keys(50):
        words = encode(update, encoding, clients=4, key=key)
        lengths.append(float(np.linalg.norm(Ring(16).signed(words)[:1600].astype(float))))
    assert max(lengths) <= encoding.sensitivity(1600)
    assert max(lengths) > encoding.clip_norm


def test_an_update_that_rounding_made_too_long_is_rounded_again(monkeypatch):
    longest = float(np.sqrt(20))  # Of 40 halves, at most 20 may go up.
    monkeypatch.setattr("f2ed.protocol.quantization.encoding.rounded_norm", lambda *_: longest)
    heard = []
    monkeypatch.setattr(
        "f2ed.protocol.quantization.encoding.derive",
        lambda *_, info, **__: heard.append(info) or bytes([len(heard)]) * 32,
    )
    encoding = Encoding(clip_value=127.0, clip_norm=4.0, bits=8, deviation=1.0)
    for key in keys(20):
        encode(np.full(40, 0.5), encoding, clients=4, key=key)
    assert b"f2ed rounding 1" in heard
    longest = 0.0
    with pytest.raises(ConfigError, match="rounding makes the update longer"):
        encode(np.full(40, 0.5), encoding, clients=4, key=KEY)


def test_with_noise_nothing_tells_what_was_clipped():
    encoding = Encoding(clip_value=0.01, clip_norm=0.5).noisy(1.0, coordinates=100, carriers=3)
    total = noisy_sum(encoding, [np.ones(100, np.float32)] * 3, 3)
    assert not total[100:].any()
    assert decode_mean(total, encoding, clients=3, survivors=3).clipped == (0, 0)
    total[-1] = 1
    with pytest.raises(PeerError, match="honest clients count none"):
        decode_mean(total, encoding, clients=3, survivors=3)


def test_an_honest_sum_with_noise_is_within_range_and_garbage_is_not():
    encoding = Encoding(clip_value=1.0, clip_norm=0.1).noisy(5.0, coordinates=1000, carriers=4)
    total = noisy_sum(encoding, [np.zeros(1000, np.float32)] * 4, 4)
    mean = decode_mean(total, encoding, clients=4, survivors=4).mean
    assert np.linalg.norm(mean) > 2 * encoding.clip_norm  # Which a sum without noise would be refused for.
    garbage, tripled = total.copy(), total * 3
    garbage[0] = 2**30
    with pytest.raises(PeerError, match="clipped updates reach at most"):
        decode_mean(garbage, encoding, clients=4, survivors=4)
    with pytest.raises(PeerError, match="a mean of norm"):
        decode_mean(tripled, encoding, clients=4, survivors=4)


def test_noise_repeats_with_its_key_and_is_not_the_rounding():
    encoding = Encoding(clip_value=1.0, clip_norm=0.1).noisy(1.0, coordinates=100, carriers=4)
    update = np.zeros(100, np.float32)
    assert np.array_equal(encode(update, encoding, clients=4, key=KEY), encode(update, encoding, clients=4, key=KEY))
    other = encode(update, encoding, clients=4, key=bytes(32))
    assert not np.array_equal(encode(update, encoding, clients=4, key=KEY), other)
