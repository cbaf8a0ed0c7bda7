"""What a server holds of a large model in a round: counted in bytes that Python allocates, not in seconds."""

import gc
import tracemalloc
from contextlib import contextmanager

import msgspec
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from f2ed import FilterL2
from f2ed.core.spill import Spill
from f2ed.deployment.identity import roster_from
from f2ed.deployment.roster import round_task
from f2ed.flower.arrays import moved, update, update_plan
from f2ed.flower.checkpoint import Progress, load, save
from f2ed.protocol.aggregation import ServerStep, StepState, shard_means
from f2ed.protocol.aggregation.task import agreed_encoding, shard_terms
from f2ed.protocol.quantization.encoding import encode
from f2ed.protocol.secagg import write
from f2ed.protocol.secagg.messages import TAG_BYTES, Upload
from f2ed.protocol.secagg.terms import bind

COORDINATES = 600_000
MODEL = 4 * COORDINATES
ROSTER = roster_from("test:8/4")


@pytest.fixture(autouse=True)
def _traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


@contextmanager
def peak():
    """Give a list that ends up with the most bytes that were allocated inside, beyond those before."""
    found: list[float] = []
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    yield found
    found.append(tracemalloc.get_traced_memory()[1] - before)


def large(value=1.0, dtype=np.float32):
    return ArrayRecord({"x": Array(np.full(COORDINATES, value, dtype))})


def plan_of(arrays):
    return update_plan(arrays, None, clip_value=1.0)


def task_of(round_):
    task = round_task(ROSTER, "memory", round_, model=bytes(32), coordinates=COORDINATES)
    return msgspec.structs.replace(task, secure=False)


def uploads(task):
    """Return what each client uploads, in the clear."""
    found = {}
    for terms in shard_terms(ROSTER.assignment(0), task):
        tag, encoding = bind(terms, task.roster, task.model)[:TAG_BYTES], agreed_encoding(terms, COORDINATES)
        for client in terms.members:
            change = np.full(COORDINATES, 0.01 * client, np.float32)
            words = encode(change, encoding, clients=len(terms.members), key=bytes(32))
            found[client] = write(Upload(tag, memoryview(words).cast("B")))
    return found


def led(round_, arrays, state, zeros, sent):
    means, audit = shard_means(
        lambda requests: {client: sent[client] for client in requests},
        ROSTER.assignment(0),
        task_of(round_),
        zeros=zeros,
    )
    assert len(audit.opened) == 4
    step = ServerStep(FilterL2(contamination=0.2), tensors=(COORDINATES,))
    result = step(means, state, round_=round_)
    return moved(arrays, result.step, plan_of(arrays)), result.state


def test_a_round_holds_the_budget_or_a_mean_and_two_models(tmp_path):
    budget = 2 * MODEL + 10_000
    zeros, arrays, state, peaks = Spill(budget, tmp_path), large(), StepState(), []
    sent = [uploads(task_of(round_)) for round_ in range(3)]
    start = tracemalloc.get_traced_memory()[0]  # With one model.
    for round_ in range(3):
        tracemalloc.reset_peak()
        arrays, state = led(round_, arrays, state, zeros, sent[round_])
        save(tmp_path / "checkpoint", Progress(round_ + 1, arrays, 0, state), roster="r")
        peaks.append(tracemalloc.get_traced_memory()[1] - start)
    assert max(peaks) < budget + 0.8 * MODEL, "blocks of fixed size, and no other copy"
    assert peaks[2] < peaks[0] + 0.3 * MODEL, "nothing is left of earlier rounds"


def test_files_of_a_round_are_gone_with_its_means_and_wait_for_no_collector(tmp_path):
    zeros, sent = Spill(0, tmp_path), uploads(task_of(0))
    gc.disable()
    try:
        led(0, large(), StepState(), zeros, sent)
        assert zeros.in_files == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_step_makes_the_next_model_and_no_other_copy(dtype):
    arrays, step = large(dtype=dtype), np.full(COORDINATES, 0.5, np.float32)
    with peak() as found:
        after = moved(arrays, step, plan_of(arrays))
    # Blocks of it are computed beside it.
    assert found[0] < len(arrays["x"].data) + 1_500_000
    assert after["x"].numpy().dtype == dtype
    assert (after["x"].numpy() == 1.5).all()
    assert (after["x"].dtype, after["x"].shape, after["x"].stype) == (
        str(np.dtype(dtype)),
        (COORDINATES,),
        arrays["x"].stype,
    )
    assert after["x"].data == Array(after["x"].numpy()).data, "the bytes that Flower itself makes"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_an_update_is_one_vector_and_no_copy_of_a_model(dtype):
    before, after = large(1.0, dtype), large(1.25, dtype)
    plan = plan_of(before)
    with peak() as found:
        change = update(before, after, plan)
    assert change.dtype == (np.float64 if dtype == np.float64 else np.float32)
    assert found[0] < change.nbytes + 200_000
    assert (change == 0.25).all()


def test_arrays_in_the_order_of_columns_move_alike():
    values = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    arrays = ArrayRecord({"x": Array(values)})
    plan = plan_of(arrays)
    after = moved(arrays, np.arange(6, dtype=np.float32), plan)
    assert after["x"].numpy().tolist() == (values * 2).tolist()
    assert update(arrays, after, plan).tolist() == list(range(6))


def test_a_checkpoint_is_written_without_a_copy_of_the_model(tmp_path):
    state = StepState(np.full(COORDINATES, 0.25, np.float32))
    progress = Progress(3, large(), 7, state)
    with peak() as found:
        save(tmp_path / "checkpoint", progress, roster="r")
    assert found[0] < 0.1 * MODEL
    again = load(tmp_path / "checkpoint", roster="r", like=progress.arrays)
    assert again.arrays["x"].data == progress.arrays["x"].data
    assert again.step.to_bytes() == state.to_bytes()
