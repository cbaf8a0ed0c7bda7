"""The data sets. To add one: a file here with a frozen struct, and its name in the union below."""

from f2ed.learning.datasets.adult import ADULT, Adult
from f2ed.learning.datasets.archive import Archive
from f2ed.learning.datasets.base import Data, Dataset, Samples
from f2ed.learning.datasets.bundle import Bundle
from f2ed.learning.datasets.cifar10 import CIFAR10, Cifar10
from f2ed.learning.datasets.digits import Digits
from f2ed.learning.datasets.fashion_mnist import FASHION_MNIST, FashionMnist
from f2ed.learning.datasets.files import Csv, ImageFolder, Npz, Parquet
from f2ed.learning.datasets.frameworks import HuggingFace
from f2ed.learning.datasets.given import Given
from f2ed.learning.datasets.mnist import MNIST, Mnist
from f2ed.learning.datasets.newsgroups import MINILM, NEWSGROUPS, Newsgroups
from f2ed.learning.datasets.shakespeare import SHAKESPEARE, Shakespeare
from f2ed.learning.datasets.synthetic import Synthetic

__all__ = [
    "ADULT",
    "ARCHIVES",
    "CIFAR10",
    "FASHION_MNIST",
    "MINILM",
    "MNIST",
    "NEWSGROUPS",
    "SHAKESPEARE",
    "Adult",
    "AnyDataset",
    "Cifar10",
    "Csv",
    "Data",
    "Dataset",
    "Digits",
    "FashionMnist",
    "Given",
    "HuggingFace",
    "ImageFolder",
    "Mnist",
    "Newsgroups",
    "Npz",
    "Parquet",
    "Samples",
    "Shakespeare",
    "Synthetic",
]

AnyDataset = (
    Mnist
    | FashionMnist
    | Cifar10
    | Shakespeare
    | Newsgroups
    | Adult
    | Digits
    | Synthetic
    | Npz
    | Csv
    | Parquet
    | ImageFolder
    | HuggingFace
    | Given
)

ARCHIVES: tuple[Archive | Bundle, ...] = (MNIST, FASHION_MNIST, CIFAR10, SHAKESPEARE, NEWSGROUPS, ADULT, MINILM)
"""What is files and may have to be downloaded: data sets, and the weights of MiniLM."""
