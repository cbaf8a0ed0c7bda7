"""One example of every attack, for the shared tests, which fail if one is missing."""

from typing import get_args

from f2ed import attacks as a

EXAMPLES = {
    a.KrumAttack: a.KrumAttack(),
    a.TrimmedMeanAttack: a.TrimmedMeanAttack(),
    a.ModelPoisoning: a.ModelPoisoning(images=3),
    a.ModelReplacement: a.ModelReplacement(),
    a.DBA: a.DBA(),
    a.ALIE: a.ALIE(),
    a.IPM: a.IPM(),
    a.MinMax: a.MinMax(),
    a.MinSum: a.MinSum(),
    a.LabelFlip: a.LabelFlip(),
    a.SignFlip: a.SignFlip(),
    a.Gaussian: a.Gaussian(),
    a.Mimic: a.Mimic(),
    a.Neurotoxin: a.Neurotoxin(),
    a.HIDRA: a.HIDRA(sections=7),
    a.Oracle: a.Oracle(),
    a.Edge: a.Edge(),
    a.AdaptiveBackdoor: a.AdaptiveBackdoor(),
    a.Chameleon: a.Chameleon(),
    a.EdgeCase: a.EdgeCase(source=3),
    a.Semantic: a.Semantic(source=3),
    a.A3FL: a.A3FL(),
    a.IBA: a.IBA(),
    a.QuietBackdoor: a.QuietBackdoor(),
    a.StretchedMimic: a.StretchedMimic(points=3),
}
MEMBERS = get_args(a.AnyAttack)
ALL = list(EXAMPLES.values())
EXTRA = [
    a.KrumAttack(variant="released"),
    a.TrimmedMeanAttack(variant="released"),
    a.TrimmedMeanAttack(space="weights", b=3.0),
    a.ModelPoisoning(images=3, variant="released"),
    a.ModelPoisoning(images=3, strategy="explicit", optimizer="adam", boost="shard"),
    a.ModelReplacement(variant="released"),
    a.ModelReplacement(boost="shard", alpha=0.5),
    a.DBA(variant="released"),
    a.DBA(rounds=(3, 5), boost=10.0),
    a.ALIE(z=1.5),
    a.IPM(variant="released"),
    a.MinMax(direction="sign"),
    a.MinSum(direction="spread", bound="min"),
    a.LabelFlip(source=1, target=2),
    a.HIDRA(sections="whole", tau=0.1),
    a.Oracle(direction="principal"),
    a.Neurotoxin(ratio=0.5, radius=0.1),
    a.ModelReplacement(boost=1.0, blend=0.5, share=0.1, lr=0.05, epochs=3),
    a.LabelFlip(share=0.5, boost=2.0, lr=0.05, epochs=2),
    a.AdaptiveBackdoor(reach="edge", blind=0.5, boost=0.5),
    a.AdaptiveBackdoor(disguise=0.5),
    a.EdgeCase(source=0, tail=1.0, boost="shard"),
    a.Semantic(source=0, feature="dark"),
]


def name(attack):
    return repr(attack).replace("'", "")[:60]
