"""The page on which rule withstands what: searched and listed attacks, and the choice of the default."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from f2ed.experiments.reproduction.aimed import aimed_table
from f2ed.experiments.reproduction.default_rule import columns, default_section
from f2ed.experiments.reproduction.frontier import Standing, measured_frontier, setting_table
from f2ed.experiments.reproduction.limits import worst_planted
from f2ed.experiments.reproduction.quoted import fill
from f2ed.experiments.reproduction.rare_class import rare_class
from f2ed.experiments.reproduction.searched import (
    Searched,
    fewer_lost,
    fewer_malicious,
    five_malicious,
    joined,
    searched,
    searched_in_shards,
    searched_table,
    tries,
)

__all__ = ["frontier_page"]


def frontier_page(results: Path) -> str:
    """Return the whole page."""
    shards, rows = searched_in_shards(results), searched(results, "client_rows")
    every = measured_frontier(results)
    return "\n".join(
        [
            _HEAD + fill(_summary(shards, rows)),
            f"{_SHARDS}\n{fill(_budget(shards))}\n{searched_table(shards).markdown()}\n{fill(_worse(every))}",
            f"{_CLIENT_ROWS}\n{fill(_budget(rows))}\n{searched_table(rows).markdown()}",
            f"{_FEWER_HEAD}\n{fill(_fewer(results))}\n{fewer_malicious(results).markdown()}",
            f"{fill(_FIVE)}\n{five_malicious(results).markdown()}",
            f"{_AIMED}\n{aimed_table(results).markdown()}",
            default_section(every, joined(results), {each.name for each in shards}),
            f"{_RARE}\n{rare_class(results, _alike(every)).markdown()}",
            _FRONTIER,
            *(
                f"### {setting}\n\n{_table(every, setting)}"
                for setting in dict.fromkeys(each.setting for each in every)
            ),
            _PROVENANCE,
        ]
    )


def _worse(every: Sequence[Standing]) -> str:
    accuracy, backdoor = (columns(every, column) for column in (1, 3))
    return f"""So few trials do not always find the worst: take the worse of this table and [the list](#the-frontier).
    There FilterL2 falls to {accuracy["FilterL2"]} % accuracy (i.i.d., three classes, Dirichlet), and a backdoor reaches
    {backdoor["Trimmed Mean"]} % with the trimmed mean and {backdoor["Median"]} % with the median."""


def _fewer(results: Path) -> str:
    return f"""Two backdoors, i.i.d., 25 shards, two seeds, on a CPU (`experiments/fewer_malicious.toml`): *adaptive*,
    which won most searches, and *boosted*, which a search found against AlignIns. For each rule the success of the
    worse one
    in percent after 30 rounds; no accuracy was more than {fewer_lost(results):.1f} points below that without an
    attack. [Short searches](limits.md) with 2 and 5 malicious clients, i.i.d., planted no backdoor above
    {worst_planted(results)}; a stronger one may exist."""


def _alike(every: Sequence[Standing]) -> list[Standing]:
    return [each for each in every if each.setting == "mnist, i.i.d."]


def _table(every: Sequence[Standing], setting: str) -> str:
    return setting_table(every, setting).markdown()


def _budget(found: Sequence[Searched]) -> str:
    trials, stopped = sum(each.trials for each in found), sum(each.stopped for each in found)
    compared = dict.fromkeys(each.name for each in found if each.planted)
    planted = _PLANTED.format(rules="; ".join(compared)) if compared else ""
    return f"""{trials} attacks were tried, {tries(found)} for each rule, setting and objective; {stopped} of them
    were stopped early. What was found was run with three seeds, or one where there is no ±: means ± half their range,
    in percent after 30 rounds. {planted}"""


def _summary(shards: Sequence[Searched], rows: Sequence[Searched]) -> str:
    low, high = _ends(shards, "")
    least = min((each for each in shards if each.objective == "backdoor"), key=Searched.harm).name
    fence, filter_l2 = (_ends([each for each in rows if each.name == rule], "none, i.i.d.")[1]
                        for rule in ("Dual filter + fence", "FilterL2"))  # fmt: skip
    few = _ends([each for each in rows if each.name == "Dual filter + fence"], "none, three classes")[1]
    return f"""**No rule here withstands the worst case.** With 25 shards and 10 of 100 clients malicious, up to 40 %
    of the rows are contaminated, and a search found a backdoor against every rule that it was given: {low:.0f} to
    {high:.0f} % success, also where clients have all classes (least with *{least}*). With a row for each client, so
    that 10 % are contaminated, and clients that have all classes, a filter with a fence behind it lets in {fence:.1f} %
    and FilterL2 {filter_l2:.0f} %. With three classes per client it is {few:.0f} % and more for all but one rule, which
    loses accuracy without an attack. A search gives a lower bound: with more trials, or other attacks, each rule may
    do worse. Searches are on MNIST; all of it is with a small dense network."""


def _ends(found: Sequence[Searched], setting: str) -> tuple[float, float]:
    ends = [100 * fmean(each.backdoor) for each in found if each.objective == "backdoor" and setting in each.setting]
    return min(ends), max(ends)


_PLANTED = """Of a backdoor against {rules} counts what was [planted](search_attacks.md#two-objectives), against other
rules its whole success."""
_HEAD = """# Which rule withstands what

<!-- Written by docs/scripts/frontier.py from the records; change that instead. -->

"""
_SHARDS = """## Searched attacks, 25 shards

MNIST, 100 clients of whom 10 are malicious, 25 shards: up to 40 % of the rows are contaminated.
"""
_CLIENT_ROWS = """## Searched attacks, a row for each client

The same clients without shards: 10 % of the rows are contaminated. Rows of single clients reach a rule without secure
aggregation, or hidden from every party with [helpers](helpers.md), where rules that work on the Gram matrix alone
run; a fence needs the coordinates and does not.
"""
_FEWER_HEAD = "## Fewer malicious clients\n"
_AIMED = """## An attack on signs and angles

Listed attacks were not made for a rule that judges rows by their signs and angles, as AlignIns does.
[`stretched-mimic`](attacks.md) is: it sends copies of a few honest rows, stretched as far as the rule in use follows.
Accuracy in percent after 30 rounds, 10 of 100 clients malicious, 25 shards (`experiments/aimed.toml`):
"""
_FRONTIER = """## The frontier

13 rules against nine listed attacks, one of them a backdoor that a search had found against FilterL2 (*searched
backdoor*); on MNIST with shards also the stretched mimic. Accuracy lost is compared with the plain mean without an
attack. No other rule of its table has both a better worst accuracy and a smaller worst backdoor than one in bold.

```{figure} figures/frontier.svg
:alt: For each data and partition, accuracy lost under the worst attack against the worst backdoor; a point for a rule.

Above with the backdoor that was found against FilterL2, below with listed backdoors alone. Lower left is better. A
search that is aimed at a rule finds more than is shown here: see the tables above.
```
"""
_PROVENANCE = """## How it was run

The searches: `f2ed search` with `--confirm 2`, on one NVIDIA H200, in 2.6 and 1.0 minutes, and a second one against
AlignIns, with the stretched mimic among the attacks, in 7.4 minutes beside other work; a third one, where clients have
all classes, in 5.7 minutes; a fourth one against *Resilience, one pass + median* where clients differ, on a CPU, with
one seed, in 22.7 minutes. What was found, with every setting of the attacks, is in `results/searched/`. The frontier:
`f2ed run frontier`, on the same GPU and some of it on a CPU. Seeds 0 and 1 of `--part mnist` are whole; seed 2 was run
for FilterL2, AlignIns and the plain mean, and of *Resilience, one pass + median* seed 0 alone, on a CPU. Of
Fashion-MNIST seed 0 was run, without that rule. The part without shards and CIFAR-10 were not run
(`results/frontier.jsonl.xz` and `frontier-more.jsonl.xz`). The stretched mimic: `f2ed run aimed`; a number without ±
is of seed 0 alone.

```console
$ python docs/scripts/frontier.py results docs/figures/frontier.svg   # writes this page and the figure
```
"""
_FIVE = """The adaptive backdoor by five malicious clients in all three partitions, one seed, on a CPU
(`experiments/five_malicious.toml`); combinations that are not in the table were not run."""
_RARE = """## What a rule gives up

To a rule, ten honest clients that alone have a class look like ten attackers with a backdoor: they agree on something
that nobody else knows. Here all clients are honest, and one class of MNIST belongs to ten of 100 clients
(`experiments/rare_class.toml`, 25 shards, 30 rounds, two seeds, on a CPU); the rules assume ten malicious clients, as
elsewhere. A tenth of the test images is of that class, so a model that never learns it reaches at most 89.9 %. The
rules that learn some of it are those that let in a listed backdoor with more than 90 % success where clients are alike;
of the others all but FilterL2 stop the backdoors that were listed, and none learns the class. A rule sees rows only:
what ten clients agree on is a backdoor or knowledge, and it treats both alike. Where clients differ, as with three
classes each, more of what is honest may look like that; whether this is why no rule here does well in accuracy and
against backdoors there was not tested.
"""
