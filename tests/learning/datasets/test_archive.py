"""Files are found in a fixed order, checked, and fetched only if they are nowhere."""

import pytest
import torch

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets import Mnist
from f2ed.learning.datasets.archive import FetchError, find, load, obtain
from tests.learning.datasets.archives import CONTENTS, TINY, put


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("F2ED_DATA", raising=False)


def test_places_are_searched_in_order(tmp_path, monkeypatch):
    monkeypatch.setenv("F2ED_DATA", str(tmp_path / "variable"))
    named = tmp_path / "named"
    assert find(TINY, named) is None
    for place, folder in (
        ("the cache", tmp_path / "cache" / "f2ed" / "tiny"),
        ("F2ED_DATA", tmp_path / "variable" / "tiny"),
        ("the given folder", named / "tiny"),
    ):
        put(folder)
        found, paths = find(TINY, named)
        assert found == place
        assert {path.parent for path in paths.values()} == {folder}


def test_a_place_with_three_of_four_files_is_passed_over(tmp_path):
    folder = put(tmp_path / "named" / "tiny")
    (folder / "t10k-labels-idx1-ubyte").unlink()
    assert find(TINY, tmp_path / "named") is None


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("dotted", [True, False])
def test_the_usual_spellings_are_read(tmp_path, packed, dotted):
    put(tmp_path / "tiny", packed=packed, dotted=dotted)
    data = load(TINY, obtain(TINY, tmp_path, ()), None)
    assert data.classes == 3
    assert data.shape == (1, 3, 3)
    assert data.train.labels.tolist() == [0, 1, 2, 1]
    torch.testing.assert_close(data.train.images.flatten(), torch.arange(36) / 255)
    assert data.test.images.eq(1).all()
    assert (data.black, data.white) == (0, 1)


def test_scaling_shifts_and_divides_pixels_and_says_what_black_and_white_become(tmp_path):
    put(tmp_path / "tiny")
    data = load(TINY, obtain(TINY, tmp_path, ()), (0.5, 0.25))
    assert (data.black, data.white) == (-2, 2)
    assert data.test.images.eq(2).all()
    assert data.train.images[0, 0, 0, 0] == -2


@pytest.mark.parametrize(
    ("normalize", "white"), [(True, (1 - 0.1307) / 0.3081), (False, 1), ("raw", (255 - 0.1307) / 0.3081)]
)
def test_mnist_is_normalized_or_not_or_as_if_raw_pixels_went_to_one(tmp_path, monkeypatch, normalize, white):
    put(tmp_path / "tiny")
    monkeypatch.setattr("f2ed.learning.datasets.mnist.MNIST", TINY)
    data = Mnist(normalize=normalize)(tmp_path)
    assert data.white == pytest.approx(white)
    assert data.test.images.flatten()[0].item() == pytest.approx(white)


def test_a_file_with_another_content_is_refused_and_named(tmp_path):
    folder = put(tmp_path / "tiny")
    wrong = bytearray(CONTENTS["train-labels-idx1-ubyte"])
    wrong[-1] ^= 1
    (folder / "train-labels-idx1-ubyte").write_bytes(bytes(wrong))
    with pytest.raises(ConfigError, match=r"train-labels-idx1-ubyte is not the published file.*SHA-256"):
        load(TINY, obtain(TINY, tmp_path, ()), None)


def test_what_is_found_is_not_fetched(tmp_path):
    put(tmp_path / "tiny")

    def fetch(*_):
        pytest.fail("fetched what was there")

    obtain(TINY, tmp_path, (fetch,))


def test_ways_to_fetch_are_tried_in_order_until_one_works():
    tried = []

    def fails(*_):
        tried.append("fails")
        raise FetchError("the first way is closed")

    def works(_archive, to, _progress, _say):
        tried.append("works")
        put(to)

    def spare(*_):
        tried.append("spare")

    said = []
    paths = obtain(TINY, None, (fails, works, spare), notify=said.append)
    assert tried == ["fails", "works"]
    assert said == ["the first way is closed"]
    assert all(path.is_file() for path in paths.values())


def test_the_error_names_where_was_looked_and_why_fetching_failed(tmp_path):
    def fails(*_):
        raise FetchError("no way")

    with pytest.raises(ConfigError, match=r"tiny was not found in .*named.*cache.*no way.*F2ED_DATA"):
        obtain(TINY, tmp_path / "named", (fails,))
