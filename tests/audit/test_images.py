import struct
import zlib

import numpy as np
import pytest

from f2ed.audit.images import BEST_PSNR, match, psnr, save_png, side_by_side, ssim


def some(count=4, side=12, seed=0):
    return np.random.default_rng(seed).random((count, 1, side, side))


def test_equal_images_have_the_best_scores():
    images = some()
    assert psnr(images, images).tolist() == [BEST_PSNR] * 4
    assert ssim(images, images) == pytest.approx(1)


def test_a_constant_error_of_a_tenth_is_twenty_decibels():
    assert psnr(some(), some() + 0.1) == pytest.approx(20)


def test_the_likeness_of_two_flat_images_is_worked_by_hand():
    black, gray = np.zeros((1, 1, 9, 9)), np.full((1, 1, 9, 9), 0.5)
    assert ssim(black, gray)[0] == pytest.approx(0.01**2 / (0.25 + 0.01**2))


def test_every_true_image_gets_its_own_whatever_the_order():
    images = some(6)
    noisy = images[[3, 1, 5, 0, 2, 4]] + 0.01
    np.testing.assert_allclose(match(images, noisy), images + 0.01)


def test_what_was_not_found_is_black():
    images = some(3)
    found = match(images, images[1:2])
    assert found[1].tolist() == images[1].tolist()
    assert not found[[0, 2]].any()
    assert not match(images, images[:0]).any()


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_can_be_read_back(tmp_path, channels):
    images = np.random.default_rng(1).random((2, channels, 4, 5))
    picture = side_by_side(images, 1 - images)
    assert picture.shape == (9, 10, channels)
    save_png(tmp_path / "a.png", picture, scale=1)
    content = (tmp_path / "a.png").read_bytes()
    width, height, bits, kind = struct.unpack(">IIBB", content[16:26])
    assert (width, height, bits, kind) == (10, 9, 8, 2 if channels == 3 else 0)
    length = struct.unpack(">I", content[33:37])[0]
    lines = zlib.decompress(content[41 : 41 + length])
    rows = np.frombuffer(lines, np.uint8).reshape(9, -1)
    assert not rows[:, 0].any()
    assert rows[:, 1:].tobytes() == picture.tobytes()
