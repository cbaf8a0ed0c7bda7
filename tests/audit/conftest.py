import pytest
import torch

from f2ed.learning.datasets import Digits


@pytest.fixture(scope="session")
def digits():
    return Digits()()


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)
