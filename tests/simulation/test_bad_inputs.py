"""What cannot work is refused in one sentence, from Python and from a file, before anything starts."""

# ruff: noqa: F401, F403  the cases are text, and need every name

import numpy as np
import pytest
import torch
from torch import nn

import f2ed
from f2ed import Encoding, GramStream, Noise, Protocol, assign_shards, plan_shards
from f2ed.attacks import *
from f2ed.core.errors import ConfigError
from f2ed.estimators import *
from f2ed.experiments import prepare
from f2ed.experiments.file import parse
from f2ed.learning import Training
from f2ed.learning.models import *
from f2ed.learning.partition import *
from f2ed.protocol.sharding import Batches, EveryKRounds
from f2ed.simulation import Simulation, experiment

HERE = __name__
X = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
Y = np.arange(20) % 2
D = (np.tile(X, (12, 1)), np.tile(Y, 12), X, Y)
B = {"data": {"kind": "synthetic", "train": 240, "test": 60}, "clients": 12, "shards": 4, "rounds": 1}


class NoEstimate(f2ed.estimators.Estimator, frozen=True, tag="no-estimate"):
    def estimate(self, rows):
        return rows.matrix.mean(axis=0)


class ShortMean(f2ed.estimators.Estimator, frozen=True, tag="short-mean"):
    def estimate(self, rows):
        return f2ed.Estimate(rows.matrix.mean(axis=0)[:2])


class FewWeights(f2ed.estimators.Estimator, frozen=True, tag="few-weights"):
    def estimate(self, rows):
        return f2ed.Estimate(rows.matrix.mean(axis=0), weights=np.ones(1))


class ComplexSent(f2ed.attacks.Attack, frozen=True, tag="complex-sent"):
    def craft(self, scene):
        return scene.own * 1j


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        raise RuntimeError("no weights here")


class TwoOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, x):
        return self.layer(x), self.layer(x)


class Ragged(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, place):
        return torch.zeros(3 + place % 2), place % 2


def constant_loss(outputs, targets):  # noqa: ARG001  the signature of every loss
    return torch.tensor(1.0)


def vector_loss(outputs, targets):  # noqa: ARG001  as above
    return outputs.square().mean(1)


def word_metric(outputs, targets):  # noqa: ARG001  as above
    return "good"


class NumberSent(f2ed.attacks.Attack, frozen=True, tag="number-sent"):
    def craft(self, scene):  # noqa: ARG002  the signature of every attack
        return 3


class ShortSent(f2ed.attacks.Attack, frozen=True, tag="short-sent"):
    def craft(self, scene):
        return scene.own[:, :2]


def sim(**changed):
    for _ in f2ed.simulate(**(B | changed)):
        pass


PYTHON = [
    "FilterL2(2)",
    "FilterL2(contamination=-0.1)",
    "FilterL2()",
    "FilterL2(0.1, f=2)",
    "FilterL2(f=2.5)",
    "FilterL2(0.1, sigma=0)",
    "FilterL2(0.1, eta=-1)",
    'FilterL2(0.1, variant="nonsense")',
    'FilterL2("0.1")',
    "FilterL2(0.1)(X[0])",
    "FilterL2(0.1)(np.zeros((0,6)))",
    "FilterL2(0.1)(np.zeros((20,0)))",
    "FilterL2(0.1)(X.astype(str))",
    'FilterL2(0.1)("rows")',
    "FilterL2(0.1)([[1,2],[3]])",
    "FilterL2(0.1)(np.full((5,3),np.nan))",
    "FilterL2(f=10)(X)",
    "Krum(f=9)(X)",
    "Bulyan(f=5)(X)",
    "TrimmedMean(.5)",
    "NNM(contamination=2, inner=Mean())",
    'NNM(f=1, inner="mean")',
    "Bucketing(inner=Mean(), size=0)",
    "Sections(Mean(), size=0)",
    "Sections(Mean(), per_tensor=True)(X)",
    "Sections(Mean(), per_tensor=True)(X, tensors=[1,2])",
    "DnC(0.1, draws=0)",
    "DnC(0.1, coordinates=0)",
    "CenteredClipping(radius=-1)",
    "Training(lr=-1)",
    'Training(lr="fast")',
    "Training(proximal=0)",
    'Training(lr=float("inf"))',
    "Training(batch_size=0)",
    "Training(local_epochs=0)",
    "Training(momentum=1)",
    'Training(optimizer="adamw")',
    'Training(optimizer="adam", momentum=0.9)',
    "Mlp(hidden=(0,))",
    "Mlp(hidden=8)",
    "Cnn(filters=0)",
    "Pathological(0)",
    "Dirichlet(alpha=0)",
    "EveryKRounds(0)",
    "Batches(size=0)",
    'ALIE(z="big")',
    "Neurotoxin(ratio=2)",
    "ModelReplacement(boost=-1)",
    "sim(clients=0)",
    'sim(clients="many")',
    "sim(malicious=12)",
    'sim(attack="gaussian")',
    "sim(shards=5)",
    "sim(shards=0)",
    "sim(rounds=0)",
    'sim(data="mnits")',
    "sim(data=(X,X[:,0],X))",
    "sim(data=(X,np.zeros(19),X,np.zeros(20)))",
    'sim(model="mpl")',
    'sim(model={"kind":"mlp","hiden":[3]})',
    'sim(estimator="filterl2")',
    'sim(estimator={"kind":"krum","f":3})',
    "sim(estimator=3)",
    "sim(estimator=NoEstimate())",
    "sim(estimator=ShortMean())",
    "sim(estimator=FewWeights())",
    "sim(attack=NumberSent(),malicious=1)",
    "sim(attack=ShortSent(),malicious=1)",
    'sim(attack={"kind":"min-max","strenght":1},malicious=1)',
    'sim(training={"lr":0})',
    'sim(training={"proximal":-1})',
    "sim(training=0.1)",
    'sim(schedule={"kind":"every-k-rounds"})',
    'sim(schedule="sometimes")',
    'sim(secure="yes")',
    "sim(bits=1)",
    "sim(clip_value=0)",
    "sim(clip_norm=-1)",
    "sim(client_dropout=1)",
    "sim(dp=1.0)",
    'sim(dp={"noise_multiplier":-1},clip_norm=1.0)',
    'sim(protocol={"mode":"magic"})',
    'sim(protocol={"colluders":9})',
    "sim(lr=0.1)",
    'sim(seed="x")',
    "sim(seed=1.5)",
    'sim(start="nowhere")',
    'sim(device="cuda:7")',
    "f2ed.simulate()",
    "f2ed.simulate(B, folder=3)",
    "f2ed.simulate(B, device=3)",
    "f2ed.simulate(B, notify=3)",
    'f2ed.simulate(B, strict="yes")',
    "Simulation(experiment(B), workers=0)",
    "Simulation(experiment(B), workers=1.5)",
    "Simulation(experiment(B), name=3)",
    "Simulation(experiment(B), data=X)",
    "Simulation(experiment(B), folder=[])",
    'f2ed.simulate("demo")',
    "f2ed.simulate(B, clients=3)",
    "plan_shards(clients=0, malicious=0)",
    "plan_shards(clients=10, malicious=10)",
    "plan_shards(clients=100, malicious=5, min_crowd=200)",
    'plan_shards(clients="many", malicious=0, shards=1)',
    "plan_shards(clients=10, malicious=0, shards=2.5)",
    'assign_shards({}, shards=1, epoch=0, seed=b"")',
    'assign_shards({1:b""}, shards=2, epoch=0, seed=b"")',
    "Encoding(0)",
    "Encoding(1.0, bits=99)",
    "Noise(noise_multiplier=0)",
    "Noise(noise_multiplier=1, delta=2)",
    'Protocol(mode="magic")',
    "Protocol(colluders=-1)",
    "GramStream(n=-1)",
    "sim(data=D, model=Failing)",
    "sim(data=D, model=TwoOutputs)",
    "sim(data=D, model=nn.Linear(6, 2))",
    "sim(data=D, model=lambda: 3)",
    'sim(data=D, model="lstm")',
    "sim(data=D, loss=constant_loss)",
    "sim(data=D, loss=vector_loss)",
    'sim(data=D, loss="next-token")',
    'sim(data=D, metric="f1")',
    "sim(data=D, metric=word_metric)",
    'sim(data=D, attack="dba", malicious=1)',
    'sim(data=D, loss="mse", attack="label-flip", malicious=1)',
    "sim(data=(D[0], np.array([None] * 240), X, Y))",
    "sim(data=(D[0], D[1], X[:, :5], Y))",
    "sim(data=(D[0] * 1j, D[1], X, Y))",
    "sim(data=(np.full_like(D[0], np.inf), D[1], X, Y))",
    "sim(data=(D[0], D[1], X[:0], Y[:0]))",
    "sim(data=(Ragged(), Ragged()))",
    "sim(data=(5, 6))",
    "sim(estimator=Krum)",
    "sim(estimator=lambda rows: rows)",
    "sim(estimator={})",
    "sim(attack=NumberSent, malicious=1)",
    "sim(attack=lambda scene: scene, malicious=1)",
    "sim(attack=ComplexSent(), malicious=1)",
    "sim(clients=10**14)",
    "sim(rounds=10**12)",
    "sim(clients=True)",
    "sim(clients_per_round=1.5)",
    "sim(clients_per_round=2)",
    'sim(client_weights="samples", max_weight=0)',
    "sim(start=np.zeros(3))",
    "sim(client_momentum=1.0)",
    'sim(protocol={"min_crowd": 99})',
    'sim(helpers={"rule": "x"})',
    'experiment("demo")',
    "Simulation(B)",
    "f2ed.simulate(B).save_model(3)",
    'f2ed.simulate(B).save_model("/nowhere/model.safetensors")',
    "Krum(f=1)([{'a': torch.zeros(3)}] * 8)",
    "Krum(f=1)([torch.zeros(3), np.zeros(3)] * 4)",
    "Krum(f=1)([torch.zeros(3), torch.zeros(4)] * 4)",
    "Krum(f=1)(torch.zeros(8, 3).to_sparse())",
    'Krum(f=1)(torch.zeros(8, 3, device="meta"))',
    "Krum(f=1)(torch.zeros(8, 3, dtype=torch.int64))",
    "Krum(f=np.float32(2))",
    'FilterL2(0.1)(X, weights="heavy")',
    "FilterL2(0.1)(X, weights=[1] * 19)",
    "Mean().aggregate([nn.Linear(2, 2)] * 3)",
    "Mean().aggregate([{'a': X}, {'b': X}])",
]


@pytest.mark.parametrize("call", PYTHON)
def test_python_is_refused_in_one_sentence(call):
    with pytest.raises(ConfigError) as refusal:
        eval(call)  # noqa: S307  the cases above
    assert "\n" not in str(refusal.value)
    assert 10 < len(str(refusal.value)) < 400


FILE = """
data = { kind = "synthetic", train = 240, test = 60 }
clients = 12
shards = 4
rounds = 1
"""

TOML = [
    ("clients = 12", "clients = 0", "clients"),
    ("clients = 12", 'clients = "many"', "clients"),
    ("clients = 12", "clients = 12.5", "clients"),
    ("clients = 12", "", "clients is missing"),
    ("clients = 12", "clients = 1000", "clients"),
    ("clients = 12", "clients = []", "the list is empty"),
    ("clients = 12", "clients = [12, 12]", "state each only once"),
    ("shards = 4", "shards = 0", "shards"),
    ("shards = 4", "shards = 5", "crowd of at least 3"),
    ("shards = 4", "shards = 13", "shards"),
    ("shards = 4", 'shards = "some"', "shards"),
    ("rounds = 1", "rounds = 0", "rounds"),
    ("rounds = 1", "rounds = -1", "rounds"),
    ("rounds = 1", "round = 1", "did you mean rounds?"),
    ("rounds = 1", "", "rounds is missing"),
    ("rounds = 1", "rounds = ", "is not valid TOML"),
    ("rounds = 1", "rounds = 1\nmalicious = 12", "malicious"),
    ("rounds = 1", "rounds = 1\nmalicious = -1", "malicious"),
    ("rounds = 1", 'rounds = 1\nattack = "gaussian"', "attack: there are no malicious clients"),
    ("rounds = 1", 'rounds = 1\nmalicious = 1\nattack = "gausian"', "did you mean gaussian"),
    ("rounds = 1", 'rounds = 1\nmalicious = 1\nattack = { kind = "min-max", strenght = 1 }', "strenght"),
    ("rounds = 1", 'rounds = 1\nmalicious = 1\nattack = "gaussian"\nattack_from = 9', "attack_from"),
    ("rounds = 1", 'rounds = 1\nmalicious = 1\nattack = { kind = "dba", rounds = [] }', "attack.rounds"),
    ("rounds = 1", 'rounds = 1\nmalicious = 1\nattack = { kind = "label-flip", source = 1 }', "source and target"),
    ("rounds = 1", 'rounds = 1\nestimator = "filterl2"', "did you mean filter-l2?"),
    ("rounds = 1", "rounds = 1\nestimator = 3", "estimator"),
    ("rounds = 1", 'rounds = 1\nestimator = { kind = "krum", f = 9 }', "Krum tolerates"),
    ("rounds = 1", 'rounds = 1\nestimator = { kind = "krum", f = 2.0 }', "estimator.f"),
    ("rounds = 1", 'rounds = 1\nestimator = { kind = "krum", contamination = 2 }', "estimator.contamination"),
    ("rounds = 1", 'rounds = 1\nestimator = { kind = "krum", f = 1, contamination = 0.1 }', "one of the two"),
    ("rounds = 1", 'rounds = 1\nestimator = { kind = "nnm", f = 1 }', "estimator.inner is missing"),
    ("rounds = 1", 'rounds = 1\nestimator = { kind = "nnm", f = 1, inner = "meen" }', "did you mean mean?"),
    ("rounds = 1", 'rounds = 1\nestimator = { kind = "imported", factory = "x" }', "is not an import path"),
    ("rounds = 1", 'rounds = 1\nestimator = { kind = "imported", factory = "no_such:X" }', "cannot be imported"),
    ("rounds = 1", 'rounds = 1\nmodel = "mpl"', "did you mean mlp?"),
    ("rounds = 1", 'rounds = 1\nmodel = { kind = "mlp", hidden = [0] }', "model.hidden"),
    ("rounds = 1", 'rounds = 1\nmodel = { kind = "imported", factory = "torch.nn:Linear" }', "cannot be called"),
    ("rounds = 1", 'rounds = 1\nmodel = { kind = "imported", factory = "no_such:X" }', "cannot be imported"),
    ("rounds = 1", 'rounds = 1\npartition = "dirichlett"', "did you mean dirichlet?"),
    ("rounds = 1", 'rounds = 1\npartition = { kind = "dirichlet", alpha = 0 }', "partition.alpha"),
    ("rounds = 1", 'rounds = 1\npartition = { kind = "pathological", classes_per_client = 11 }', "partition"),
    ("rounds = 1", 'rounds = 1\npartition = "natural"', "name their client column"),
    ("rounds = 1", "rounds = 1\ntraining = 0.1", "training"),
    ("rounds = 1", "rounds = 1\ntraining = { lr = 0 }", "training.lr"),
    ("rounds = 1", "rounds = 1\ntraining = { batch_size = 0 }", "training.batch_size"),
    ("rounds = 1", 'rounds = 1\ntraining = { optimizer = "lion" }', "training.optimizer"),
    ("rounds = 1", "rounds = 1\ntraining = { lr = inf }", "training.lr"),
    ("rounds = 1", 'rounds = 1\ntraining = { lr_schedule = "cosine" }', "expected `table`, got `str`"),
    ("rounds = 1", 'rounds = 1\nmetric = { kind = "imported", factory = "mine:f" }', "expected `str`, got `table`"),
    ("rounds = 1", 'rounds = 1\nbuffers = { policy = "mean" }', "expected one of 'average', 'keep', 'local'"),
    ("rounds = 1", 'rounds = 1\nplacement = "evil"', "placement: expected one of"),
    ("rounds = 1", 'rounds = 1\nschedule = "sometimes"', "schedule"),
    ("rounds = 1", 'rounds = 1\nschedule = { kind = "every-k-rounds" }', "schedule.k is missing"),
    ("rounds = 1", 'rounds = 1\nschedule = { kind = "batches", size = 9 }', "schedule"),
    ("rounds = 1", "rounds = 1\nsecure = 1", "secure"),
    ("rounds = 1", "rounds = 1\nbits = 1", "bits"),
    ("rounds = 1", "rounds = 1\nclip_value = 0.0", "clip_value"),
    ("rounds = 1", "rounds = 1\nclip_norm = -1.0", "clip_norm"),
    ("rounds = 1", "rounds = 1\nclient_dropout = 1.0", "client_dropout"),
    ("rounds = 1", "rounds = 1\ndp = 1.0", "dp: noise without an L2 clip"),
    ("rounds = 1", "rounds = 1\ndp = -1.0\nclip_norm = 1.0", "dp"),
    ("rounds = 1", 'rounds = 1\nprotocol = { mode = "magic" }', "protocol.mode"),
    ("rounds = 1", "rounds = 1\nprotocol = { colluders = 9 }", "protocol"),
    ("rounds = 1", 'rounds = 1\nstart = "nowhere.safetensors"', "there is no nowhere"),
    ("rounds = 1", "rounds = 1\nseed = 1.5", "seed"),
    ('kind = "synthetic"', 'kind = "mnits"', "did you mean mnist?"),
    ("train = 240", "train = 0", "data.train"),
    ("train = 240", "trian = 240", "data.trian"),
    ('kind = "synthetic", train = 240, test = 60', 'kind = "npz", file = "nowhere.npz"', "there is no nowhere.npz"),
    ('kind = "synthetic", train = 240, test = 60', 'kind = "csv"', "data.file is missing"),
    ("clients = 12", "clients = 99999999999999", "clients: expected `int` <= 1000000"),
    ("clients = 12", "clients = 12\nclients = 13", "Cannot overwrite a value"),
    ("rounds = 1", "rounds = 1000000000000", "rounds: expected `int` <= 100000"),
    ("rounds = 1", "rounds = true", "rounds: expected `int`, got `bool`"),
    ("shards = 4", "shards = inf", "shards"),
    ("shards = 4", "shards = [4, 4]", "two runs have the same settings"),
    ("rounds = 1", "rounds = 1\nclients_per_round = 1.0", "clients_per_round: expected `float` < 1.0"),
    ("rounds = 1", 'rounds = 1\nclients_per_round = "10%"', "clients_per_round"),
    ("rounds = 1", "rounds = 1\nclients_per_round = 3", "found 4 shards for 3 clients"),
    ("rounds = 1", "rounds = 1\nearly_stopping = true", "early_stopping: expected `table`"),
    ("rounds = 1", "rounds = 1\nearly_stopping = { patiense = 3 }", "did you mean patience?"),
    ("rounds = 1", 'rounds = 1\nserver_optimizer = "fedsgd"', "server_optimizer.kind: there is no 'fedsgd'"),
    ("rounds = 1", 'rounds = 1\nserver_optimizer = { kind = "fedadam", lr = 0.1 }', "server_optimizer.lr"),
    ("rounds = 1", 'rounds = 1\nloss = "crossentropy"', "did you mean cross-entropy?"),
    ("rounds = 1", 'rounds = 1\nloss = { kind = "imported" }', "loss.factory is missing"),
    (
        "rounds = 1",
        f'rounds = 1\nloss = {{ kind = "imported", factory = "{HERE}:constant_loss" }}',
        "without a gradient",
    ),
    ("rounds = 1", f'rounds = 1\nloss = {{ kind = "imported", factory = "{HERE}:X" }}', "a function or a class"),
    (
        "rounds = 1",
        'rounds = 1\nloss = { kind = "imported", factory = "torch.nn:HuberLoss", settings = { dellta = 1 } }',
        "cannot be made with {'dellta': 1}",
    ),
    ("rounds = 1", 'rounds = 1\nmetric = "accuracy"', "choose from rmse, mae"),
    ("rounds = 1", 'rounds = 1\nmetric = "math:missing"', "has no missing"),
    ("rounds = 1", f'rounds = 1\nmodel = {{ kind = "imported", factory = "{HERE}:Failing" }}', "no weights here"),
    ("rounds = 1", f'rounds = 1\nestimator = {{ kind = "imported", factory = "{HERE}:Failing" }}', "no weights here"),
    (
        "rounds = 1",
        f'rounds = 1\nestimator = {{ kind = "imported", factory = "{HERE}:ComplexSent" }}',
        "must derive from",
    ),
    ("rounds = 1", 'rounds = 1\nestimator = { kind = "imported", factory = ["mine:Ok"] }', "estimator: write"),
    ("rounds = 1", "rounds = 1\nestimator = {}", "estimator.kind is missing"),
    ("rounds = 1", "rounds = 1\nestimator = { contamination = 0.1 }", "estimator.kind is missing"),
    ("rounds = 1", 'rounds = 1\nestimator = [["mean"]]', "estimator[0]: found ['mean']"),
    ("rounds = 1", 'rounds = 1\nestimator = ["mean", "mean"]', "two runs have the same settings"),
    ("rounds = 1", 'rounds = 1\nmalicious = 2\nattack = ""', "attack.kind: there is no ''"),
    ("rounds = 1", 'rounds = 1\nmalicious = 2\nattack = { kind = "alie", z = nan }', "attack.z"),
    ("rounds = 1", 'rounds = 1\ntraining = { lr_schedule = { kind = "exponential" } }', "training.lr_schedule.kind"),
    ("rounds = 1", "rounds = 1\ntraining = { lr = [0.1, 0.1] }", "two runs have the same settings"),
    ("rounds = 1", "rounds = 1\ntraining = []", "the list is empty"),
    ("rounds = 1", "rounds = 1\npartition = 0.5", "partition: expected `table`"),
    ("rounds = 1", "rounds = 1\nquick = 3", "quick: found 3"),
    ("rounds = 1", "rounds = 1\nquick = { roundz = 1 }", "did you mean rounds?"),
    ("rounds = 1", "rounds = 1\ntitle = 3", "title: found 3"),
    ("rounds = 1", "rounds = 1\nrepeats = 3", "repeats: unknown setting"),
    ("rounds = 1", "rounds = 1\ndp = { epsilon = 1.0 }\nclip_norm = 1.0", "dp.epsilon: there is no such setting"),
    ("rounds = 1", 'rounds = 1\nprotocol = { agreement = "rsa" }', "protocol.agreement"),
    ("rounds = 1", "rounds = 1\nprotocol = { min_crowd = 99 }", "protocol.min_crowd: found 99"),
    ("rounds = 1", 'rounds = 1\nprotocol = { kind = "helpers", guard = "no" }', "protocol.guard: expected one of"),
    ("rounds = 1", 'rounds = 1\nstart = "."', "Is a directory"),
]


@pytest.mark.parametrize(("found", "written", "sentence"), TOML, ids=[case[1][:60] for case in TOML])
def test_a_file_is_refused_in_one_sentence_with_the_setting_to_change(found, written, sentence):
    assert found in FILE
    with pytest.raises(ConfigError) as refusal:
        prepare(parse(FILE.replace(found, written), "mine.toml"))
    assert sentence in str(refusal.value)
    assert str(refusal.value).startswith("mine.toml")
    assert "\n" not in str(refusal.value)
