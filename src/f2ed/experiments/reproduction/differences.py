"""Why some numbers differ from the paper's, and what resharding changes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from f2ed.experiments.reproduction.backdoors import backdoors
from f2ed.experiments.reproduction.comparison import FENCED, OURS, THEIRS, behind, every_arm, number
from f2ed.experiments.reproduction.outcomes import Panel
from f2ed.experiments.reproduction.paper import FIGURES, stated
from f2ed.experiments.reproduction.quoted import (
    FASHION,
    RESNET,
    by_rule,
    ended,
    ends_of,
    fill,
    measured,
    recorded,
    says,
)
from f2ed.records import RunLog

__all__ = ["differences", "resharding", "weaknesses"]

_PAIRS = f"{OURS}, schedule batches of 2"
_SMALL = f"{OURS} (contamination 0.1)"


def differences(ends: Mapping[str, Sequence[Panel]], shards: Collection[RunLog], results: Path) -> str:
    """Return the section, from the panels of each figure, the runs of Figure 2, and additional runs."""
    paragraphs = (
        _fashion(ends),
        _mpa(ends["fig2"], shards),
        _few_classes(ends["fig5"], results),
        _few_classes_script(ends["fig4"], results),
        *backdoors(ends, shards, results),
        _trimmed(ends["fig1"]),
    )
    return "## Why some numbers differ\n\n" + "".join(f"- {' '.join(text.split())}\n" for text in paragraphs if text)


def _fashion(ends: Mapping[str, Sequence[Panel]]) -> str:
    ka, tma = (ended(ends["fig2"], FASHION, attack) for attack in ("KA (released)", "TMA (released)"))
    ka_before, tma_before = (ended(ends["fig1"], FASHION, attack) for attack in ("KA (released)", "TMA (released)"))
    ka_fenced, tma_fenced = (
        ended(ends["fig2"], FASHION, attack, FENCED) for attack in ("KA (released)", "TMA (released)")
    )
    normalized = f"{FASHION} normalized"
    ka_normalized, tma_normalized = (
        ended(ends["fig2"], normalized, attack) for attack in ("KA (released)", "TMA (released)")
    )
    return f"""**Fashion-MNIST with shards.** Under KA and TMA the text says {says("fig2", FASHION, "KA")} and
        {says("fig2", FASHION, "TMA")}; the released logs of the same settings end at {recorded("fig2", "KA")} and
        {recorded("fig2", "TMA")}, and our runs at {ka} and {tma} (with a fence
        {ka_fenced} and {tma_fenced}). Without shards, text and logs agree,
        {recorded("fig1", "KA")} and {recorded("fig1", "TMA")}, and our runs end at {ka_before} and {tma_before}. So our
        settings match the released ones, and the text's numbers with shards are from other runs. With 100 clients, a
        round has a fifth of the steps it has with 20. Pixels of mean 0 and variance 1, which the released code uses
        for MNIST only, learn faster: {ka_normalized} and {tma_normalized} (`fig2_shards.toml`, part
        `fashion-normalized`), still below the text."""


def _mpa(ends: Sequence[Panel], logs: Iterable[RunLog]) -> str:
    return f"""**MPA.** On MNIST with shards FilterL2 ends at {ended(ends, "mnist", "MPA (released)")} %, with a
        fence at {ended(ends, "mnist", "MPA (released)", FENCED)} %: with some seeds one of the ten images is
        classified as the attackers want, a step of 10 points. {_own_mistake(logs)} The
        image is shown with rows and columns exchanged. Averaging on Fashion-MNIST with shards loses
        {ended(ends, FASHION, "MPA (released)", "Mean")} % of the images here, and
        {recorded("fig2", "MPA", "Mean")} % in the released log. The authors' attack changed many times, and the
        version behind the log is unknown; the released one boosts by 2."""


def _own_mistake(logs: Iterable[RunLog]) -> str:
    """State that the image is misclassified without any attacker's influence, if a run shows it."""
    wanted = {"data": "mnist", "attack": "MPA (released)", "estimator": "Krum"}
    for log in logs:
        untouched = not any(record.contaminated_weight for record in log.rounds)
        if wanted.items() <= log.header.arm.items() and untouched and log.rounds[-1].success:
            return """This is the model's own mistake: the run with Krum, which gave contaminated shards no weight in
                any round, misclassifies the image too."""
    return "FilterL2 gave contaminated shards almost no weight, so it is likely the model's own mistake."


def _few_classes(ends: Sequence[Panel], results: Path) -> str:
    theirs, mean, small = (ended(ends, "mnist", "KA (released)", arm) for arm in (THEIRS, "Mean", _SMALL))
    honest, honest_mean = (ended(ends, "mnist", "none", arm) for arm in (OURS, "Mean"))
    replaced, replaced_theirs = (ended(ends, "mnist", "MRA (shard)", arm) for arm in (OURS, THEIRS))
    full = ends_of("resharding_full", results)
    ka_resharded, honest_resharded = (
        ended(full, "mnist", attack, f"{OURS}, schedule every-round") for attack in ("KA (released)", "none")
    )
    reached = [end.mean for panel in ends if panel.attack == "KA (released)" for end in panel.arms.values() if end]
    below = max(reached, default=1.0) < stated("fig5", "mnist", OURS)["KA"]
    return f"""**Three classes per client, KA.** The text says {says("fig5", "mnist", "KA")}.
        {"No rule reaches it here." if below else ""} FilterL2 ends at {ended(ends, "mnist", "KA (released)")}, with a
        fence at {ended(ends, "mnist", "KA (released)", FENCED)}, the released FilterL2, run here, at {theirs}, ours
        with the released contamination at {small}, and averaging at
        {mean}. Ten attackers can contaminate ten of 25 shards, which ours assumes; the released one assumes a tenth of
        the shards. So ours rejects more of them, including honest ones when clients have few classes: {honest} without
        an attack, against {honest_mean} for averaging. The benefit shows under MRA (shard): {replaced_theirs} % success
        against the released FilterL2, {replaced} % against ours. `contamination` trades one for the other. The paper's
        Algorithm 1 also reshards every round, while the shards are fixed here. With resharding and one seed, FilterL2
        ends at {ka_resharded} (without an attack: {honest_resharded}); see [Resharding](#resharding)."""


def _few_classes_script(without: Sequence[Panel], results: Path) -> str:
    """Describe Figure 5 under KA with the pixels and the learning rate of a script once released."""
    fixed, resharded, alone, neighbors, normalized = (
        by_rule("few_classes_released", part, results)
        for part in ("figure5", "every-round", "figure4", "neighbors", "neighbors-normalized")
    )
    if THEIRS not in fixed:
        return ""
    return f"""**Three classes per client, KA: other pixels reach it.** The released code once included a script for
        clients with few classes (`src/hetero.py`; here `experiments/few_classes_released.toml`). It reads InfiMNIST,
        after which the paper's source names its MNIST figures, leaves pixels between 0 and 255, and trains at a
        learning rate of 0.0001. Run that way, the released FilterL2 ends under KA at {number(fixed[THEIRS])}, which
        matches the text, and averaging at {number(fixed.get("Mean"))}; ours ends at {number(fixed.get(OURS))}, with
        resharding at {number(resharded.get(OURS))}, without shards at {number(alone.get(OURS))}. This does not explain
        everything: without shards the released FilterL2 then ends at {number(alone.get(THEIRS))}, where the text says
        {says("fig4", "mnist", "KA")}, and with the pixels and learning rate of Figure 4 at
        {ended(without, "mnist", "KA (released)", THEIRS)}. So the two numbers in the text may come from different
        settings. The script gives each client consecutive classes, where the text says random ones; with those, the
        released FilterL2 ends at {number(neighbors.get(THEIRS))}, averaging at {number(neighbors.get("Mean"))} and ours
        at {number(neighbors.get(OURS))}. Consecutive classes alone, with the pixels and learning rate of Figure 5, do
        not reach it: {number(normalized.get(THEIRS))}, {number(normalized.get("Mean"))} and
        {number(normalized.get(OURS))}."""


def _trimmed(ends: Sequence[Panel]) -> str:
    attacks, rule = ("TMA", "MPA"), "Trimmed Mean"
    theirs = " and ".join(recorded("fig1", attack, rule) for attack in attacks)
    ours, as_released = (
        " and ".join(ended(ends, FASHION, f"{attack} (released)", arm) for attack in attacks)
        for arm in (rule, f"{rule} (released)")
    )
    return f"""**Trimmed mean in the released logs.** On Fashion-MNIST without shards it ends under TMA and MPA at
        {theirs} there and at {ours} here. According to the text it removes 30 %, as here; the released code trims a
        tenth on each side, less than the quarter that attacks. Run that way, it ends at {as_released}
        (`fig1_iid.toml`, part `released`)."""


def resharding(few_classes: Sequence[Panel], results: Path) -> str:
    """Return the section on resharding, also compared with the panels of Figure 5."""
    small = every_arm([panel for panel in ends_of("resharding", results) if any(panel.arms.values())], "mnist")
    # The runs with fixed shards are runs of Figure 5.
    full = ends_of("resharding_full", results, shared=FIGURES["fig5"])
    paired = fill(
        """The same with the paper's network (`experiments/resharding_full.toml`, one seed). Compared with the other
        rules of Figure 5, which have fixed shards: """
        + " ".join(behind(_with_pairs(few_classes, full), _PAIRS))
    )
    text = fill(
        """The paper's Algorithm 1 reshards every round. The runs above have fixed shards, since otherwise the server
        can solve for single clients within a few rounds ([What the server learns](what_the_server_learns.md)). When
        clients have few classes, fixed shards cost accuracy: the filter rejects the same honest shards in every round,
        so the classes of their clients have less influence. Here with a small network (`experiments/resharding.toml`):
        fixed shards, resharding after five of ten rounds, pairs of clients that always share a shard, and resharding
        every round. Pairs recover most of the loss, and the server never separates the two clients of a pair: use them
        when clients have few classes (`schedule = { kind = "batches", size = 2 }`, `f2ed roster sign --group-size 2
        --every 1 --colluders 0`)."""
    )
    found = [each.markdown() if each.rows else "It was not run.\n" for each in (small, every_arm(full, "mnist"))]
    return f"## Resharding\n\n{text}\n{found[0]}\n{paired}\n{found[1]}"


def _with_pairs(few_classes: Sequence[Panel], resharded: Sequence[Panel]) -> list[Panel]:
    """Replace FilterL2 by FilterL2 with pairs, in panels where that was run."""
    pairs = {panel.attack: panel.arms.get(_PAIRS) for panel in resharded}
    return [
        msgspec.structs.replace(
            panel, arms={arm: end for arm, end in panel.arms.items() if arm != OURS} | {_PAIRS: end}
        )
        for panel in few_classes
        if (end := pairs.get(panel.attack)) is not None
    ]


def weaknesses(iid: Sequence[Panel], few_classes: Sequence[Panel]) -> str:
    """Return a paragraph for choosing an estimator, from the panels of Figures 1 and 5."""
    honest, mean = (_end(few_classes, "none", arm) for arm in (OURS, "Mean"))
    ours, theirs = (_end(few_classes, "MRA (shard)", arm) for arm in (OURS, THEIRS))
    dba = {arm: _end(iid, "DBA (released)", arm) for arm in (OURS, "Mean", "Bulyan Krum", "Trimmed Mean", "Krum")}
    named = {arm: _end(iid, RESNET, arm) for arm in (OURS, "Mean")}
    if honest is None or mean is None or ours is None or theirs is None or None in (*dba.values(), *named.values()):
        return "Its weaknesses were not measured: the experiments were not run.\n"
    released, resnet = (
        ", ".join(f"{100 * (end or 0.0):.0f} % against {arm}" for arm, end in found.items()) for found in (dba, named)
    )
    return fill(
        f"""**When clients have few classes each**, honest rows differ by more than noise, and FilterL2 rejects some of
        them, more with a larger `contamination`. With three classes per client and 25 shards it lost
        {100 * (mean - honest):.1f} points without an attack. A smaller `contamination` recovers them and admits attacks
        it then no longer covers: with a quarter of the `contamination`, in sections as in the paper, the success of a
        backdoor rose from {100 * ours:.0f} % to {100 * theirs:.0f} %. [Reproducing the paper](reproducing.md) has the
        complete table under Figure 5; pairs of clients that share a shard lose less
        ([measured](reproducing.md#resharding)). The benefit of the filter shows in the [worst case](worst_case.md),
        where most other rules break. **A stealthy backdoor** can evade a rule that looks at the spread: DBA, with a
        quarter of 20 clients malicious and the network of the released code, reached {released}; with the ResNet18 and
        the hyperparameters of the DBA paper {resnet}.""",
    )


def _end(ends: Sequence[Panel], attack: str, arm: str) -> float | None:
    found = measured(ends, "mnist", attack, arm)
    return None if found is None else found.mean
