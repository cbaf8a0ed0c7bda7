"""Assign the training samples to the clients; no sample goes to two."""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from f2ed.core.errors import ConfigError
from f2ed.core.randomness import stream
from f2ed.core.settings import Settings
from f2ed.learning.portions import Indices, assign_portions, draw_labels, labels_for, portions_of

__all__ = [
    "AnyPartition",
    "Assigned",
    "Dirichlet",
    "FlwrDatasets",
    "Iid",
    "Natural",
    "NeighboringClasses",
    "Partition",
    "Partitioner",
    "Pathological",
    "RareClass",
]

Setting = bool | int | float | str


@dataclass(frozen=True, eq=False)
class Partition:
    """The sample numbers of each client, and the label of every sample."""

    rows: tuple[Indices, ...]
    labels: Indices

    @property
    def sizes(self) -> list[int]:
        """The number of samples of each client."""
        return [len(rows) for rows in self.rows]

    @property
    def histograms(self) -> list[list[int]]:
        """For each client, how many samples it has of each label."""
        classes = int(self.labels.max()) + 1
        return [np.bincount(self.labels[rows], minlength=classes).tolist() for rows in self.rows]


class Partitioner(Settings, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """A way to assign samples, by its settings."""

    by_label: ClassVar[bool] = False
    """Whether it needs a class for every sample."""

    def __call__(
        self, labels: NDArray[np.integer], clients: int, seed: int, *, owners: Indices | None = None
    ) -> Partition:
        """Assign the samples with these labels to `clients` clients; the same seed gives the same partition.

        `owners` are the clients that the data themselves name, one per sample.
        """
        if not 1 <= clients <= len(labels):
            raise ConfigError(f"found {clients} clients for {len(labels)} samples; use 1 to {len(labels)} clients")
        every = np.asarray(labels, dtype=np.int64)
        return Partition(tuple(self.by_owner(every, owners, clients, stream(seed, "partition"))), every)

    def by_owner(
        self,
        labels: Indices,
        owners: Indices | None,  # noqa: ARG002  most partitions ignore it
        clients: int,
        rng: np.random.Generator,
    ) -> list[Indices]:
        """Return the sample numbers of each client, where the data may name the clients."""
        return self.assign(labels, clients, rng)

    @abstractmethod
    def assign(self, labels: Indices, clients: int, rng: np.random.Generator) -> list[Indices]:
        """Return the sample numbers of each client."""


class Iid(Partitioner, frozen=True, tag="iid"):
    """Every client has the same number of samples, drawn at random; the remainder (fewer than clients) is unused."""

    def assign(self, labels: Indices, clients: int, rng: np.random.Generator) -> list[Indices]:
        """Split one permutation into equal parts."""
        size = len(labels) // clients
        return list(rng.permutation(len(labels))[: size * clients].reshape(clients, size))


class Pathological(Partitioner, frozen=True, tag="pathological"):
    """Every client has exactly `classes_per_client` labels, drawn at random, and the same number of samples.

    Every label goes to the same number of clients, to within one, and each client has the same number of samples of
    each of its labels, so the rarest label determines how many samples are used.
    """

    by_label: ClassVar[bool] = True
    classes_per_client: Annotated[int, msgspec.Meta(ge=1)] = 3

    def assign(self, labels: Indices, clients: int, rng: np.random.Generator) -> list[Indices]:
        """Assign labels first, then equal portions of each."""
        present, counts = labels_for(labels, self.classes_per_client)
        chosen = draw_labels(len(present), self.classes_per_client, clients, rng)
        portions = portions_of(chosen, counts)
        return assign_portions(labels, chosen, np.full_like(portions, portions[chosen].min()), rng)


class NeighboringClasses(Partitioner, frozen=True, tag="neighboring-classes"):
    """Client i has the `classes_per_client` classes from the i-th on, cyclically.

    All clients with a label have the same number of samples of it, and almost all samples are used, so clients with
    frequent labels have more samples than others.
    """

    by_label: ClassVar[bool] = True
    classes_per_client: Annotated[int, msgspec.Meta(ge=1)] = 3

    def assign(self, labels: Indices, clients: int, rng: np.random.Generator) -> list[Indices]:
        """Assign labels cyclically, then equal portions of each."""
        present, counts = labels_for(labels, self.classes_per_client)
        chosen = (np.arange(clients)[:, None] + np.arange(self.classes_per_client)) % len(present)
        return assign_portions(labels, chosen, portions_of(chosen, counts), rng)


class RareClass(Partitioner, frozen=True, tag="rare-class"):
    """The class `rare` belongs to `holders` clients, drawn at random, alone; all others are divided equally at random.

    To a robust rule these clients look like attackers: they agree on something that nobody else knows.
    """

    by_label: ClassVar[bool] = True
    rare: Annotated[int, msgspec.Meta(ge=0)] = 9
    holders: Annotated[int, msgspec.Meta(ge=1)] = 10

    def assign(self, labels: Indices, clients: int, rng: np.random.Generator) -> list[Indices]:
        """Divide the others, then add equal parts of the class for its holders."""
        own = rng.permutation(np.flatnonzero(labels == self.rare))
        if not self.holders <= min(clients, len(own)):
            raise ConfigError(
                f"class {self.rare} has {len(own)} samples for {self.holders} of {clients} clients; use fewer holders"
            )
        others = np.array_split(rng.permutation(np.flatnonzero(labels != self.rare)), clients)
        for client, extra in zip(rng.permutation(clients), np.array_split(own, self.holders), strict=False):
            others[client] = np.concatenate([others[client], extra])
        return others


class Natural(Partitioner, frozen=True, tag="natural"):
    """Every client has the samples that the data themselves give it, by their client column."""

    def by_owner(
        self,
        labels: Indices,  # noqa: ARG002  the owners decide
        owners: Indices | None,
        clients: int,
        rng: np.random.Generator,
    ) -> list[Indices]:
        """Draw the clients if there are more of them than the run has."""
        if owners is None:
            raise ConfigError("the data do not say which client has which sample; name their client column")
        names = np.unique(owners)
        if len(names) < clients:
            raise ConfigError(f"the data name {len(names)} clients; state clients = {len(names)} or fewer")
        chosen = names if len(names) == clients else np.sort(rng.permutation(names)[:clients])
        return [np.flatnonzero(owners == name).astype(np.int64) for name in chosen]

    def assign(self, labels: Indices, clients: int, rng: np.random.Generator) -> list[Indices]:
        """Refuse labels without owners."""
        return self.by_owner(labels, None, clients, rng)


class Dirichlet(Partitioner, frozen=True, tag="dirichlet"):
    """Each label is split among the clients in proportions drawn from a Dirichlet(alpha) (Hsu et al. 2019).

    A small alpha gives clients with few labels and very different sizes. A partition in which a client has fewer than
    `min_samples` samples is drawn again, at most a hundred times.
    """

    by_label: ClassVar[bool] = True
    alpha: Annotated[float, msgspec.Meta(gt=0)] = 0.5
    min_samples: Annotated[int, msgspec.Meta(ge=1)] = 1

    def assign(self, labels: Indices, clients: int, rng: np.random.Generator) -> list[Indices]:
        """Split each label's samples at the cumulative proportions."""
        for _ in range(100):
            owner = np.empty(len(labels), dtype=np.int64)
            for label in np.unique(labels):
                pile = rng.permutation(np.flatnonzero(labels == label))
                cuts = (np.cumsum(rng.dirichlet(np.full(clients, self.alpha)))[:-1] * len(pile)).astype(np.int64)
                owner[pile] = np.searchsorted(cuts, np.arange(len(pile)), side="right")
            sizes = np.bincount(owner, minlength=clients)
            if sizes.min() >= self.min_samples:
                order = rng.permutation(len(labels))
                by_owner = order[np.argsort(owner[order], kind="stable")]
                return np.split(by_owner, np.cumsum(sizes)[:-1])
        raise ConfigError(
            f"a hundred draws with alpha = {self.alpha:g} each left one of {clients} clients with fewer than "
            f"{self.min_samples} samples; raise alpha, or use fewer clients"
        )


class Assigned(Partitioner, frozen=True, tag="assigned"):
    """Your own assignment: a JSON `file` that holds one list of sample numbers per client, or the lists themselves."""

    file: str = ""
    clients: tuple[tuple[int, ...], ...] = ()

    def assign(self, labels: Indices, clients: int, rng: np.random.Generator) -> list[Indices]:  # noqa: ARG002  nothing is drawn
        """Check the lists: the right number of clients, none empty, every sample valid and used once."""
        lists = self._lists()
        if len(lists) != clients:
            raise ConfigError(
                f"the assignment has {len(lists)} clients, but the experiment has {clients}; make them agree"
            )
        assigned = [np.asarray(rows, dtype=np.int64) for rows in lists]
        if empty := [client for client, rows in enumerate(assigned) if not len(rows)]:
            raise ConfigError(f"the assignment leaves client {empty[0]} without samples; give it some or leave it out")
        every = np.concatenate(assigned)
        if every.min() < 0 or every.max() >= len(labels):
            wrong = int(every[(every < 0) | (every >= len(labels))][0])
            raise ConfigError(f"the assignment names sample {wrong}; the data has samples 0 to {len(labels) - 1}")
        numbers, uses = np.unique(every, return_counts=True)
        if uses.max() > 1:
            twice = int(numbers[uses.argmax()])
            raise ConfigError(f"the assignment uses sample {twice} {uses.max()} times; use each sample once")
        return assigned

    def _lists(self) -> tuple[tuple[int, ...], ...]:
        if bool(self.file) == bool(self.clients):
            raise ConfigError("an assignment needs either `file` or `clients`; give one of the two")
        if not self.file:
            return self.clients
        try:
            return msgspec.json.decode(Path(self.file).read_bytes(), type=tuple[tuple[int, ...], ...])
        except OSError as missing:
            raise ConfigError(f"the assignment {self.file} cannot be read: {missing.strerror}") from None
        except msgspec.DecodeError as wrong:
            raise ConfigError(f"{self.file} must be a JSON list of lists of sample numbers: {wrong}") from None


class FlwrDatasets(Partitioner, frozen=True, tag="flwr-datasets"):
    """A partitioner of flwr-datasets by its class name, such as `DirichletPartitioner`, with its own `settings`.

    `num_partitions`, `partition_by` and `seed` are filled in where the partitioner takes them; the label's column is
    called "label".
    """

    by_label: ClassVar[bool] = True

    partitioner: str = "IidPartitioner"
    settings: dict[str, Setting] = msgspec.field(default_factory=dict)

    def __hash__(self) -> int:
        """Hash the settings too, which a dictionary does not do by itself."""
        return hash((self.partitioner, tuple(sorted(self.settings.items()))))

    def assign(self, labels: Indices, clients: int, rng: np.random.Generator) -> list[Indices]:
        """Let the partitioner divide a table of the labels, and read off the rows."""
        try:
            from datasets import Dataset  # noqa: PLC0415  an optional dependency
            from flwr_datasets import partitioner as library  # noqa: PLC0415  an optional dependency
        except ModuleNotFoundError:
            raise ConfigError(
                "flwr-datasets needs the package flwr-datasets, which is not installed; pip install flwr-datasets"
            ) from None
        factory = getattr(library, self.partitioner, None)
        if factory is None or not self.partitioner.endswith("Partitioner"):
            known = ", ".join(sorted(name for name in library.__all__ if name.endswith("Partitioner")))
            raise ConfigError(f"flwr-datasets has no {self.partitioner}; it has {known}")
        partitioner = self._made(factory, clients, int(rng.integers(2**31)))
        partitioner.dataset = Dataset.from_dict({"label": labels, "row": np.arange(len(labels))})
        try:
            if partitioner.num_partitions != clients:
                made = partitioner.num_partitions
                raise ConfigError(f"{self.partitioner} makes {made} partitions for {clients} clients; make them agree")
            return [np.asarray(partitioner.load_partition(client)["row"], np.int64) for client in range(clients)]
        except ValueError as error:
            raise ConfigError(f"{self.partitioner}: {error}") from None

    def _made(self, factory: Any, clients: int, seed: int) -> Any:
        """Build the partitioner with what it takes of the usual arguments."""
        arguments = factory.__init__.__code__.co_varnames[: factory.__init__.__code__.co_argcount]
        usual = {"num_partitions": clients, "partition_by": "label", "seed": seed}
        stated = {name: value for name, value in usual.items() if name in arguments} | self.settings
        try:
            return factory(**stated)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self.partitioner} with {stated}: {error}") from None


AnyPartition = Iid | Natural | Pathological | NeighboringClasses | RareClass | Dirichlet | Assigned | FlwrDatasets
