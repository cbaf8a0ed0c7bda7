import numpy as np
import pytest
import torch

from f2ed.audit import GradientMatching, draw_shard, infer_labels, invert, opened_mean, view_of
from f2ed.audit.images import RECOGNIZED, match, psnr
from f2ed.audit.label_inference import overlap
from f2ed.audit.server_view import as_pixels, update
from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.learning.models import Cnn, Mlp
from f2ed.protocol.quantization.encoding import Encoding


def scene(data, members, model=None, seed=0, batch_size=1, **settings):
    rng = stream(seed, "scene", members)
    module = (model or Mlp((128,)))(data.shape, data.classes, seed)
    shard = draw_shard(data, members, batch_size, rng)
    true = as_pixels(torch.cat([samples.images for samples in shard]), data.black, data.white)
    labels = torch.cat([samples.labels for samples in shard]).numpy()
    return view_of(module, shard, data, rng, **settings), true, np.bincount(labels, minlength=10), rng


@pytest.mark.parametrize("members", [1, 2, 4])
def test_a_dense_first_layer_gives_small_shards_away_to_the_pixel(digits, members):
    view, true, _, _ = scene(digits, members)
    assert psnr(true, match(true, invert(view, digits.shape))).min() > 35


def test_the_server_needs_no_hint_which_images_are_real(digits):
    view, true, _, _ = scene(digits, 4)
    found = invert(view, digits.shape)
    assert len(found) == 4
    assert psnr(match(true, found), true).min() > 35


def test_many_samples_hide_each_other(digits):
    few, true_few, _, _ = scene(digits, 4)
    many, true_many, _, _ = scene(digits, 32, batch_size=4)
    recovered = [
        (psnr(true, match(true, invert(view, digits.shape))) > 20).mean()
        for view, true in ((few, true_few), (many, true_many))
    ]
    assert recovered[0] == 1
    assert recovered[1] < 0.5


def test_several_local_steps_do_not_hide_a_single_sample(digits):
    view, true, _, _ = scene(digits, 1, steps=5)
    assert psnr(true, match(true, invert(view, digits.shape))).min() > 20


def test_a_mean_that_says_nothing_gives_no_image(digits):
    view, _, _, _ = scene(digits, 2)
    view.mean.zero_()
    assert invert(view, digits.shape).shape == (0, 1, 8, 8)


def test_a_convolution_is_not_inverted_by_quotients(digits):
    view, _, _, _ = scene(digits, 1, Cnn(filters=4, hidden=16))
    with pytest.raises(ConfigError, match="use gradient matching"):
        invert(view, digits.shape)


def test_matching_gradients_recovers_an_image_from_a_convolutional_network(digits):
    view, true, labels, rng = scene(digits, 1, Cnn(hidden=100))
    found = GradientMatching(iterations=100)(view, np.repeat(np.arange(10), labels).tolist(), digits.shape, rng)
    guess = as_pixels(digits.train.images.mean(dim=0, keepdim=True), 0, 1)
    assert psnr(true, found)[0] > psnr(true, guess)[0] + 5


@pytest.mark.parametrize("members", [1, 4, 16])
def test_the_last_bias_tells_the_labels(digits, members):
    view, _, labels, rng = scene(digits, members)
    assert overlap(labels, infer_labels(view, digits.shape, rng)) == 1


def test_labels_found_are_as_many_as_the_samples(digits):
    view, _, labels, rng = scene(digits, 5, batch_size=3)
    assert infer_labels(view, digits.shape, rng).sum() == labels.sum() == 15


def test_the_opened_mean_is_the_mean_to_the_precision_of_the_encoding(digits):
    rng = stream(0, "means")
    module = Mlp((16,))(digits.shape, 10, 0)
    updates = [update(module, samples, lr=0.1) for samples in draw_shard(digits, 3, 2, rng)]
    opened = opened_mean(updates, rng)
    np.testing.assert_allclose(opened, np.mean(updates, axis=0), atol=3e-6)
    assert (opened != np.mean(updates, axis=0)).any()


def test_a_noisy_encoding_hides_images_and_leaves_its_noise_in_the_mean(digits):
    rng = stream(0, "noise")
    module = Mlp((128,))(digits.shape, 10, 0)
    shard = draw_shard(digits, 4, 1, rng)
    updates = [update(module, samples, lr=0.1) for samples in shard]
    quiet = Encoding(1.0, max(float(np.linalg.norm(each)) for each in updates))
    encoding = quiet.noisy(1.0, coordinates=len(updates[0]), carriers=4)
    view = view_of(module, shard, digits, rng, encoding=encoding)
    noise = view.mean.numpy() - np.mean(updates, axis=0)
    assert noise.std() == pytest.approx(encoding.deviation * encoding.unit / np.sqrt(4), rel=0.05)
    true = as_pixels(torch.cat([samples.images for samples in shard]), digits.black, digits.white)
    exact = invert(view_of(module, shard, digits, rng, encoding=quiet), digits.shape)
    assert psnr(true, match(true, exact)).min() > RECOGNIZED
    assert psnr(true, match(true, invert(view, digits.shape))).max() < RECOGNIZED
