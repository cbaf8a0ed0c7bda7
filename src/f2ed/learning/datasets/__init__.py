"""The data sets. To add one: a file here with a frozen struct, and its name in the union below."""

from f2ed.learning.datasets.archive import Archive
from f2ed.learning.datasets.base import Data, Dataset, Samples
from f2ed.learning.datasets.digits import Digits
from f2ed.learning.datasets.fashion_mnist import FASHION_MNIST, FashionMnist
from f2ed.learning.datasets.files import Csv, ImageFolder, Npz, Parquet
from f2ed.learning.datasets.frameworks import HuggingFace
from f2ed.learning.datasets.given import Given
from f2ed.learning.datasets.mnist import MNIST, Mnist
from f2ed.learning.datasets.synthetic import Synthetic

__all__ = [
    "ARCHIVES",
    "FASHION_MNIST",
    "MNIST",
    "AnyDataset",
    "Csv",
    "Data",
    "Dataset",
    "Digits",
    "FashionMnist",
    "Given",
    "HuggingFace",
    "ImageFolder",
    "Mnist",
    "Npz",
    "Parquet",
    "Samples",
    "Synthetic",
]

AnyDataset = Mnist | FashionMnist | Digits | Synthetic | Npz | Csv | Parquet | ImageFolder | HuggingFace | Given

ARCHIVES: tuple[Archive, ...] = (MNIST, FASHION_MNIST)
"""The data sets that are files and may have to be downloaded."""
