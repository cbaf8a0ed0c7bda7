"""The model of a checkpoint, for programs that know nothing of Flower."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord

from f2ed.flower.checkpoint import Progress, save, save_model


def test_numpy_loads_the_model_of_a_checkpoint(tmp_path):
    arrays = {"layer.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "file": np.array(3)}
    record = ArrayRecord({name: Array(each) for name, each in arrays.items()})
    save(tmp_path / "checkpoint", Progress(1, record, 7), roster="clinics")
    save_model(tmp_path / "checkpoint", tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as found:
        assert set(found) == set(arrays)
        for name, each in arrays.items():
            np.testing.assert_array_equal(found[name], each)
