"""Rivals' own aggregation functions as rules: the code is theirs, imported from a checkout; here is only the call.

A rule gets the rows of a round and the global model, and returns the step that the rival's server would take with
server learning rate 1. Its settings are the defaults of the rival's repository, unless stated.
"""

import contextlib
import io
import logging
import random
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from checkouts import imported_from
from this_round import ThisRound, now
from torch import Tensor

from f2ed.core.arrays import like
from f2ed.estimators import BoundedEstimator, Estimate, Estimator

_UNUSED = ("ray", "wandb", "hydra", "omegaconf", "rich", "dotenv", "transformers", "torchvision", "opacus")
_UNUSED += ("tinyimagenet", "seaborn", "matplotlib", "psutil", "requests", "tqdm", "pandas", "PIL", "sentiment", "sox")


_PINS = {
    "AlignIns": "cefdf724648ff513",
    "FLAME": "1332135a91d1ee0a",
    "RFA": "48d6f1e2aefa6215",
    "BackFed/flame_server": "6728aabb6eecc094",
    "BackFed/foolsgold_server": "ef7f4a87545be35b",
    "BackFed/multi_krum_server": "406e1de20aa2b76a",
    "BackFed/rflbat_server": "1c6c6991f5f7cda3",
    "BackFed/robustlr_server": "b245955534a589d9",
    "BackFed/weakdp_server": "314a2c7dab896384",
}
"""How the SHA-256 of each file begins that was run for the records."""


class Rival(Estimator, frozen=True):
    """A rule of another project."""

    family = "baseline"

    def estimate(self, rows):
        rows.distances(None)  # finds rows that are not finite
        # Loops over pairs of rows, which rivals write in Python, are slower on a GPU.
        updates = torch.as_tensor(rows.matrix).cpu()
        with _undisturbed(rows.rng):
            mean = self.step(updates.clone(), now(rows.d))
        return Estimate(like(rows.matrix, mean.numpy()))

    @abstractmethod
    def step(self, updates: Tensor, this: ThisRound) -> Tensor:
        """Return the step of the model, [d], from one update per row."""


class OfAlignIns(Rival, frozen=True):
    """A defense of AlignIns' repository."""

    def server(self, updates: Tensor, **settings: Any) -> Any:
        module = imported_from(
            "AlignIns/src", "aggregation", unused=("torchvision", "geom_median"), sha256=_PINS["AlignIns"]
        )
        # It calls int() on arrays with one element, which NumPy took until 2.3.
        module.int = lambda value: int(np.asarray(value).item())
        arguments = {"server_lr": 1.0, "aggr": "", "device": updates.device, "num_corrupt": 0, **settings}
        n, d = updates.shape
        return module.Aggregation(dict.fromkeys(range(n), 1), d, SimpleNamespace(**arguments))


class AlignIns(OfAlignIns, frozen=True, tag="rival-align-ins"):
    title = "AlignIns (its code)"
    paper = "Xu et al., CVPR 2025"

    sparsity: float = 0.3
    lambda_s: float = 1.0
    lambda_c: float = 1.0

    def step(self, updates, this):
        settings = {"sparsity": self.sparsity, "lambda_s": self.lambda_s, "lambda_c": self.lambda_c}
        return self.server(updates, **settings).agg_alignins(dict(enumerate(updates)), this.model)


class SignVoting(OfAlignIns, frozen=True, tag="rival-rlr"):
    """The threshold is a share of the rows: the repository's 8 of 20."""

    title = "RLR (AlignIns' code)"
    paper = "Ozdayi et al., AAAI 2021"

    threshold: float = 0.4

    def step(self, updates, _this):
        rows = dict(enumerate(updates))
        server = self.server(updates, theta=self.threshold * len(updates))
        return server.compute_robustLR(rows)[0] * server.agg_avg(rows)


class Rfa(Rival, frozen=True, tag="rival-rfa"):
    title = "RFA (its code)"
    paper = "Pillutla et al., TSP 2022"

    iterations: int = 4

    def step(self, updates, _this):
        module = imported_from("RFA/models", "model", unused=("tensorflow", "utils"), sha256=_PINS["RFA"])
        points = [[row] for row in updates.cpu().numpy()]
        median = module.ServerModel.geometric_median_update(points, [1.0] * len(points), maxiter=self.iterations)[0]
        return torch.as_tensor(median[0]).to(updates.device)


class Flame(Rival, frozen=True, tag="rival-flame"):
    """The only public code under this name; it is not by the authors of FLAME."""

    title = "FLAME (zhmzm/FLAME)"
    paper = "Nguyen et al., USENIX Security 2022"

    noise: float = 0.001

    def step(self, updates, this):
        module = imported_from("FLAME", "utils.defense", sha256=_PINS["FLAME"])
        counts = {"wrong_mal": 0, "right_ben": 0, "turn": 0}
        # `malicious` only counts how many of the first rows were accepted, and must not be zero.
        arguments = SimpleNamespace(frac=1.0, num_users=len(updates), malicious=0.1, noise=self.noise, **counts)
        changes = [this.tensors(row) for row in updates]
        models = [this.tensors(this.model + row) for row in updates]
        after = module.flame(models, changes, this.tensors(this.model), arguments)
        return _flat(after) - this.model


class OfBackFed(Rival, frozen=True):
    """A server class of BackFed, without its constructor, which loads data and starts clients."""

    module: ClassVar[str]
    server: ClassVar[str]

    def settings(self, _n: int, _this: ThisRound) -> dict[str, Any]:
        """Return the attributes that the constructor would set."""
        return {}

    def step(self, updates, this):
        server = self._server(len(updates), this, updates.device)
        clients = [(row, 1, this.tensors(this.model + update)) for row, update in enumerate(updates)]
        server.aggregate_client_updates(clients)
        if hasattr(server, "update_history"):
            this.remembered["update_history"] = server.update_history
        return _flat(server.global_model_params) - this.model

    def _server(self, n: int, this: ThisRound, device: torch.device) -> Any:
        module: ModuleType = imported_from(
            "BackFed", f"backfed.servers.{self.module}", unused=_UNUSED, sha256=_PINS[f"BackFed/{self.module}"]
        )
        kind = getattr(module, self.server)
        server = object.__new__(kind)
        attributes = {
            "device": device,
            "eta": 1.0,
            "start_round": 0,
            "current_round": this.number,
            "config": SimpleNamespace(save_logging=None, num_rounds=-1, num_clients_per_round=n, seed=this.number),
            "global_model_params": this.tensors(this.model),
            "get_clients_info": lambda _round: {"malicious_clients": []},
            **dict.fromkeys(("true_positives", "false_positives", "true_negatives", "false_negatives"), 0),
            **self.settings(n, this),
        }
        for name, value in attributes.items():
            setattr(server, name, value)
        return server


class BackFedFlame(OfBackFed, frozen=True, tag="backfed-flame"):
    title = "FLAME (BackFed)"
    paper = "Nguyen et al., USENIX Security 2022"
    module, server = "flame_server", "FlameServer"

    lamda: float = 0.001

    def settings(self, _n, _this):
        return {"lamda": self.lamda}


class BackFedRobustLr(OfBackFed, frozen=True, tag="backfed-robust-lr"):
    """The threshold is a share of the rows: BackFed's 8 of 10."""

    title = "RobustLR (BackFed)"
    paper = "Ozdayi et al., AAAI 2021"
    module, server = "robustlr_server", "RobustLRServer"

    threshold: float = 0.8

    def settings(self, n, _this):
        return {"robustLR_threshold": self.threshold * n}


class BackFedFoolsGold(OfBackFed, frozen=True, tag="backfed-fools-gold"):
    title = "FoolsGold (BackFed)"
    paper = "Fung et al., RAID 2020"
    module, server = "foolsgold_server", "FoolsGoldServer"

    confidence: float = 1.0

    def settings(self, _n, this):
        before = this.memory.get("update_history", {})
        return {
            "confidence": self.confidence,
            "update_history": {row: vector.clone() for row, vector in before.items()},
        }


class BackFedMultiKrum(OfBackFed, BoundedEstimator, frozen=True, kw_only=True, tag="backfed-multi-krum"):
    """Told the number of malicious rows, as BackFed's `oracle` is."""

    title = "Multi-Krum (BackFed)"
    paper = "Blanchard et al., NeurIPS 2017"
    module, server = "multi_krum_server", "MultiKrumServer"

    def settings(self, n, _this):
        f = self.tolerated(n)
        return {"oracle": False, "num_malicious_clients": f, "num_clients_to_keep": n - f}


class BackFedRflbat(OfBackFed, frozen=True, tag="backfed-rflbat"):
    title = "RFLBAT (BackFed)"
    paper = "Wang et al., 2022"
    module, server = "rflbat_server", "RFLBATServer"

    eps1: float = 10.0
    eps2: float = 4.0

    def settings(self, _n, _this):
        return {"eps1": self.eps1, "eps2": self.eps2, "save_plots": False}


class BackFedNormClipping(OfBackFed, frozen=True, tag="backfed-norm-clipping"):
    title = "Norm clipping (BackFed)"
    paper = "Sun et al., 2019"
    module, server = "weakdp_server", "NormClippingServer"

    clipping_norm: float = 3.0

    def settings(self, _n, _this):
        return {"clipping_norm": self.clipping_norm, "verbose": False}


class BackFedWeakDp(OfBackFed, frozen=True, tag="backfed-weak-dp"):
    title = "Weak DP (BackFed)"
    paper = "Sun et al., 2019"
    module, server = "weakdp_server", "WeakDPServer"

    clipping_norm: float = 5.0
    std_dev: float = 0.025

    def settings(self, _n, _this):
        return {"clipping_norm": self.clipping_norm, "std_dev": self.std_dev, "verbose": False}


def _flat(tensors: dict[str, Tensor]) -> Tensor:
    return torch.cat([each.reshape(-1) for each in tensors.values()])


@contextlib.contextmanager
def _undisturbed(rng: np.random.Generator) -> Iterator[None]:
    """Seed the global generators that rivals draw from, restore them afterwards, and print nothing."""
    seed = int(rng.integers(2**31))
    legacy, plain = np.random.get_state(), random.getstate()  # noqa: NPY002  theirs, not ours
    level = logging.root.manager.disable
    with (
        torch.random.fork_rng(),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        torch.no_grad(),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        try:
            yield
        finally:
            logging.disable(level)
            np.random.set_state(legacy)  # noqa: NPY002
            random.setstate(plain)
