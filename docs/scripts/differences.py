"""Why numbers differ from the paper's, in plain words around what the records say."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from backdoors import backdoors
from quoted import FASHION, RESNET, by_rule, ended, ends_of, fill, measured, recorded, says

from f2ed.experiments.reproduction.comparison import OURS, THEIRS, behind, every_arm, number
from f2ed.experiments.reproduction.outcomes import Panel
from f2ed.experiments.reproduction.paper import FIGURES, stated
from f2ed.records import RunLog

PAIRS = f"{OURS}, schedule batches of 2"


def differences(ends: Mapping[str, Sequence[Panel]], shards: Collection[RunLog], results: Path) -> str:
    """Return the section, from the panels of each figure, runs of Figure 2, and what else was run to explain them."""
    said = (
        _fashion(ends),
        _mpa(ends["fig2"], shards),
        _few_labels(ends["fig5"], results),
        _few_labels_script(ends["fig4"], results),
        *backdoors(ends, shards, results),
        _trimmed(ends["fig1"]),
    )
    return "## Why some numbers differ\n\n" + "".join(f"- {' '.join(text.split())}\n" for text in said if text)


def _fashion(ends: Mapping[str, Sequence[Panel]]) -> str:
    ka, tma = (ended(ends["fig2"], FASHION, attack) for attack in ("KA (released)", "TMA (released)"))
    ka_before, tma_before = (ended(ends["fig1"], FASHION, attack) for attack in ("KA (released)", "TMA (released)"))
    normalized = f"{FASHION} normalized"
    ka_normalized, tma_normalized = (
        ended(ends["fig2"], normalized, attack) for attack in ("KA (released)", "TMA (released)")
    )
    return f"""**Fashion-MNIST with shards.** Under KA and TMA the text says {says("fig2", FASHION, "KA")} and
        {says("fig2", FASHION, "TMA")}; the records that the authors released of these very settings end with
        {recorded("fig2", "KA")} and {recorded("fig2", "TMA")}, and the runs here with {ka} and {tma}. Without shards
        text and records are one, {recorded("fig1", "KA")} and {recorded("fig1", "TMA")}, and the runs here end with
        {ka_before} and {tma_before}. So the settings here are theirs, and the text's numbers with shards are from
        other runs. With 100 clients a round has a fifth of the steps that it has with 20. Pixels of mean 0 and
        variance 1, which the released code gives to MNIST alone, learn faster: {ka_normalized} and {tma_normalized}
        (`fig2_shards.toml`, part `fashion-normalized`), and still not as the text has it."""


def _mpa(ends: Sequence[Panel], logs: Iterable[RunLog]) -> str:
    return f"""**MPA.** On MNIST with shards FilterL2 ends with {ended(ends, "mnist", "MPA (released)")} %: with some
        seeds one of the ten images is taken for what the attackers want, a step of 10 points. {_own_mistake(logs)} The
        image is shown with rows and columns exchanged. Averaging on Fashion-MNIST with shards loses
        {ended(ends, FASHION, "MPA (released)", "Mean")} % of the images here, and
        {recorded("fig2", "MPA", "Mean")} % in the authors' record. Their attack changed many times, and which version
        made the record is not said; the one released boosts by 2."""


def _own_mistake(logs: Iterable[RunLog]) -> str:
    """Say that the image is lost without any attacker's doing, if a run shows it."""
    wanted = {"data": "mnist", "attack": "MPA (released)", "estimator": "Krum"}
    for log in logs:
        untouched = not any(record.contaminated_weight for record in log.rounds)
        if wanted.items() <= log.header.arm.items() and untouched and log.rounds[-1].success:
            return """It is the model's own mistake, as the run with Krum shows, which gave the attackers' shards no
                weight in any round and loses the image all the same."""
    return "FilterL2 gave their shards almost no weight, so it is likely the model's own mistake."


def _few_labels(ends: Sequence[Panel], results: Path) -> str:
    theirs, mean, small = (
        ended(ends, "mnist", "KA (released)", arm) for arm in (THEIRS, "Mean", f"{OURS} (contamination 0.1)")
    )
    calm, calm_mean = (ended(ends, "mnist", "none", arm) for arm in (OURS, "Mean"))
    replaced, replaced_theirs = (ended(ends, "mnist", "MRA (shard)", arm) for arm in (OURS, THEIRS))
    anew = ends_of("resharding_full", results)
    ka_anew, calm_anew = (
        ended(anew, "mnist", attack, f"{OURS}, schedule every-round") for attack in ("KA (released)", "none")
    )
    reached = [end.mean for panel in ends if panel.attack == "KA (released)" for end in panel.arms.values() if end]
    stays = "" if max(reached, default=1.0) >= stated("fig5", "mnist", OURS)["KA"] else "No rule gets there."
    return f"""**Three labels per client, KA.** The text says {says("fig5", "mnist", "KA")}. {stays}
        FilterL2 ends with {ended(ends, "mnist", "KA (released)")}, the authors' FilterL2, run here, with {theirs}, ours
        with their epsilon with {small}, averaging with {mean}. Ten attackers can spoil ten of 25 shards, and ours
        reckons with that; theirs reckons with a tenth of the shards. So ours takes out more of them, and where labels
        are few it takes out honest ones: {calm} without an attack, against {calm_mean} for averaging. What that buys
        is seen under MRA (shard): {replaced_theirs} % success against the authors' FilterL2, {replaced} % against
        ours. `epsilon` is the dial between the two. There is another: the paper's Algorithm 1 deals the shards anew in
        every round, and the runs here keep them. Dealt anew, with one seed, FilterL2 ends with {ka_anew} (without an
        attack: {calm_anew}); [more on that](#shards-dealt-anew) is below."""


def _few_labels_script(without: Sequence[Panel], results: Path) -> str:
    """Say what the pixels and the learning rate of the authors' script for few labels make of Figure 5 under KA."""
    dealt, anew, alone, neighbors, normalized = (
        by_rule("few_classes_released", part, results)
        for part in ("figure5", "every-round", "figure4", "neighbors", "neighbors-normalized")
    )
    if THEIRS not in dealt:
        return ""
    return f"""**Three labels per client, KA: with other pixels one gets there.** Beside the authors' code lay at one
        time a script for clients with few labels (`src/hetero.py`; here `experiments/few_classes_released.toml`). It
        reads InfiMNIST, after which the paper's source names its figures of MNIST, leaves the pixels between 0 and
        255, and trains at a rate of 0.0001. Run so, the authors' FilterL2 ends under KA with {number(dealt[THEIRS])},
        where the text is, and averaging with {number(dealt.get("Mean"))}; ours ends with {number(dealt.get(OURS))},
        with shards dealt anew with {number(anew.get(OURS))}, without shards with {number(alone.get(OURS))}. That does
        not explain all: without shards the authors' FilterL2 then ends with {number(alone.get(THEIRS))}, where the
        text says {says("fig4", "mnist", "KA")}, and with the pixels and the rate of Figure 4 with
        {ended(without, "mnist", "KA (released)", THEIRS)}. So the text's two numbers may be of different settings. The
        script gives a client labels that follow each other, where the text says random ones; with those the authors'
        FilterL2 has {number(neighbors.get(THEIRS))}, averaging {number(neighbors.get("Mean"))} and ours
        {number(neighbors.get(OURS))}. Such labels alone, with the pixels and the rate of Figure 5, do not get there:
        {number(normalized.get(THEIRS))}, {number(normalized.get("Mean"))} and {number(normalized.get(OURS))}."""


def _trimmed(ends: Sequence[Panel]) -> str:
    attacks, rule = ("TMA", "MPA"), "Trimmed Mean"
    theirs = " and ".join(recorded("fig1", attack, rule) for attack in attacks)
    ours, as_released = (
        " and ".join(ended(ends, FASHION, f"{attack} (released)", arm) for attack in attacks)
        for arm in (rule, f"{rule} (released)")
    )
    return f"""**Trimmed mean in the authors' records.** On Fashion-MNIST without shards it ends under TMA and MPA with
        {theirs} there and with {ours} here. The text says that it rules out 30 %, and so it does here; the released
        code trims a tenth on each side, less than the quarter that attacks. Run so, it ends with {as_released}
        (`fig1_iid.toml`, part `released`)."""


def dealt_anew(few_labels: Sequence[Panel], results: Path) -> str:
    """Return the section on shards that are dealt anew in every round, also beside the panels of Figure 5."""
    small = every_arm([panel for panel in ends_of("resharding", results) if any(panel.arms.values())], "mnist")
    # Those with shards that are kept are runs of Figure 5.
    full = ends_of("resharding_full", results, beside=FIGURES["fig5"])
    paired = fill(
        """The same with the paper's network (`experiments/resharding_full.toml`, one seed). Beside the other rules of
        Figure 5, whose shards are kept: """
        + " ".join(behind(_with_pairs(few_labels, full), PAIRS))
    )
    text = fill(
        """The paper's Algorithm 1 deals the shards anew in every round. The runs above keep them, since otherwise the
        server can solve for single clients within a few rounds ([What the server learns](what_the_server_learns.md)).
        Where clients have few labels, that has a price: the filter takes the same honest shards for odd in every
        round, and the labels of their clients are heard less. Here with a small network
        (`experiments/resharding.toml`): shards that are kept, dealt again after five of ten rounds, in pairs that
        stay together, and in every round. Pairs get back most of what is lost, and the server never tells the two of
        a pair apart: that is what to choose where labels are few (`schedule = { kind = "batches", size = 2 }`, `f2ed
        roster sign --batches 2`)."""
    )
    found = [each.markdown() if each.rows else "It was not run.\n" for each in (small, every_arm(full, "mnist"))]
    return f"## Shards dealt anew\n\n{text}\n{found[0]}\n{paired}\n{found[1]}"


def _with_pairs(few_labels: Sequence[Panel], anew: Sequence[Panel]) -> list[Panel]:
    """Put what was measured with pairs in the place of FilterL2, in panels where it was."""
    pairs = {panel.attack: panel.arms.get(PAIRS) for panel in anew}
    return [
        msgspec.structs.replace(panel, arms={arm: end for arm, end in panel.arms.items() if arm != OURS} | {PAIRS: end})
        for panel in few_labels
        if (end := pairs.get(panel.attack)) is not None
    ]


def where_it_is_weak(iid: Sequence[Panel], few_labels: Sequence[Panel]) -> str:
    """Return a paragraph for whoever chooses an estimator, from the panels of Figures 1 and 5."""
    calm, mean = (_end(few_labels, "none", arm) for arm in (OURS, "Mean"))
    ours, theirs = (_end(few_labels, "MRA (shard)", arm) for arm in (OURS, THEIRS))
    dba = {arm: _end(iid, "DBA (released)", arm) for arm in (OURS, "Mean", "Bulyan Krum", "Trimmed Mean", "Krum")}
    named = {arm: _end(iid, RESNET, arm) for arm in (OURS, "Mean")}
    if None in (calm, mean, ours, theirs, *dba.values(), *named.values()):
        return "What its weak sides are was not run.\n"
    quiet, with_resnet = (
        ", ".join(f"{100 * end:.0f} % against {arm}" for arm, end in found.items()) for found in (dba, named)
    )
    return fill(
        f"""**Where clients have few labels each**, honest rows differ by more than noise, and FilterL2 takes some of
        them for odd: the more, the larger `epsilon`. With three labels per client and 25 shards it lost
        {100 * (mean - calm):.1f} points without an attack. A smaller `epsilon` gives them back and lets in what it then
        no longer reckons with: with a quarter of the `epsilon`, in sections as the paper has it, a backdoor got from
        {100 * ours:.0f} % to {100 * theirs:.0f} %. [Reproducing the paper](reproducing.md) has the whole table, under
        Figure 5; shards that are dealt in pairs lose less ([measured](reproducing.md#shards-dealt-anew)). What the
        filter is worth in return is seen in the worst case, where most other rules break: the first table of the
        [front page](index.md). **A backdoor that keeps quiet** can pass a rule that looks at the spread:
        DBA, with a quarter of 20 clients malicious and the network of the paper's released code, got {quiet}; with the
        ResNet18 and the parameters of its inventors {with_resnet}.""",
    )


def _end(ends: Sequence[Panel], attack: str, arm: str) -> float | None:
    found = measured(ends, "mnist", attack, arm)
    return None if found is None else found.mean
