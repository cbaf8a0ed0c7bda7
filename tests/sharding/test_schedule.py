import msgspec
import pytest

from f2ed.sharding import EveryKRounds, EveryRound, Fixed, Schedule


@pytest.mark.parametrize(
    ("schedule", "epochs"),
    [
        (Fixed(), [0, 0, 0, 0, 0, 0, 0]),
        (EveryKRounds(k=3), [0, 0, 0, 1, 1, 1, 2]),
        (EveryRound(), [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_schedule_says_which_epoch_a_round_belongs_to(schedule, epochs):
    assert [schedule(number) for number in range(7)] == epochs


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ('{"type": "fixed"}', Fixed()),
        ('{"type": "every-k-rounds", "k": 10}', EveryKRounds(k=10)),
        ('{"type": "every-round"}', EveryRound()),
    ],
)
def test_a_schedule_is_named_in_settings(text, schedule):
    assert msgspec.json.decode(text, type=Schedule) == schedule


@pytest.mark.parametrize(
    "text", ['{"type": "every-k-rounds", "k": 0}', '{"type": "fixed", "k": 3}', '{"type": "never"}']
)
def test_a_schedule_that_makes_no_sense_is_refused(text):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Schedule)
