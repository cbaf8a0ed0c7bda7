"""The models. To add one: a file here with a frozen struct, and its name in the union below."""

from f2ed.learning.models.base import Model
from f2ed.learning.models.cnn import Cnn
from f2ed.learning.models.imported import Imported
from f2ed.learning.models.lstm import Lstm
from f2ed.learning.models.minilm import MiniLm
from f2ed.learning.models.mlp import Logistic, Mlp
from f2ed.learning.models.resnet18 import ResNet18

__all__ = ["AnyModel", "Cnn", "Imported", "Logistic", "Lstm", "MiniLm", "Mlp", "Model", "ResNet18"]

AnyModel = Cnn | Mlp | Logistic | ResNet18 | Lstm | MiniLm | Imported
