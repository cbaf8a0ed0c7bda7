"""The verdict at the top of the page: which estimator held against what, on the mean over seeds, and what applied."""

from collections.abc import Iterator, Sequence
from typing import final

import msgspec

from f2ed.records.findings import Finding, by_guarantee, guarantee, privacy, stuck, unfinished, upkeep
from f2ed.records.grading import GRADES, Grade, grade
from f2ed.records.text import ending, percent, plural
from f2ed.report.arms import Arm
from f2ed.report.curves import Curve, accuracy, curve, success

__all__ = ["ArmGrade", "PageVerdict", "grade_arm", "page_verdict"]


@final
class ArmGrade(msgspec.Struct, frozen=True):
    """How one attacked arm ended."""

    level: Grade
    text: str
    accuracy: float | None
    lost: float | None
    """Accuracy lost to the attack; None where there is no run without one."""
    success: float | None


@final
class PageVerdict(msgspec.Struct, frozen=True):
    """The top of the page."""

    level: Grade
    headline: str
    points: tuple[Finding, ...]


def grade_arm(arm: Arm, every: Sequence[Arm]) -> ArmGrade | None:
    """Grade an attacked arm against the arms without an attack; None if nobody attacked, or no round is over."""
    reached, wanted = curve(arm.runs, accuracy), curve(arm.runs, success)
    if not arm.attacked or (reached is None and wanted is None):
        return None
    end = max(each.last for each in (reached, wanted) if each is not None)
    now = None if reached is None else reached.at(end)
    hit = None if wanted is None else wanted.at(end)
    benign, whose = _benign(arm, every)
    lost = _lost(reached, benign)
    return ArmGrade(grade(lost, hit), ending(now, lost, hit, whose), now, lost, hit)


def page_verdict(every: Sequence[Arm]) -> PageVerdict:
    """Sum up all arms."""
    graded = [(arm, found) for arm in every if (found := grade_arm(arm, every)) is not None]
    runs = [run for arm in every for run in arm.runs]
    deployed = [run for run in runs if run.header.source == "deployment"]
    points = [*_attacks(graded), *_estimators(graded), *_guarantees(graded)]
    points += [guarantee(several, ()) for several in by_guarantee(deployed)]
    points += [*privacy(runs), *upkeep(deployed), *unfinished(runs)]
    still = list(stuck(runs))
    level, headline = _headline(graded, every)
    return PageVerdict("broken" if still else level, still[0].sentence if still else headline, (*still, *points))


def _lost(reached: Curve | None, benign: Curve | None) -> float | None:
    """Compare at the last round that both have: a run in progress is compared with the other at the same round."""
    if reached is None or benign is None:
        return None
    moment = min(reached.last, benign.last)
    now, before = reached.at(moment), benign.at(moment)
    return None if now is None or before is None else before - now


def _benign(arm: Arm, every: Sequence[Arm]) -> tuple[Curve | None, str]:
    """Return the accuracy of the same without an attack; failing that, the best of any estimator, and which."""
    others = [other for other in every if not other.attacked and _comparable(other, arm)]
    same = [other for other in others if other.estimator == arm.estimator] or [
        other for other in others if other.estimator_kind == arm.estimator_kind
    ]
    curves = [(found, other) for other in same or others if (found := curve(other.runs, accuracy)) is not None]
    if not curves:
        return None, ""
    best, other = max(curves, key=lambda pair: pair[0].at(pair[0].last) or 0.0)
    return best, "" if other.estimator == arm.estimator else other.estimator


def _comparable(one: Arm, other: Arm) -> bool:
    """Return whether two arms have the same setting, except the number of clients that attack in only one of them."""
    ours, theirs = one.runs[0].header.settings, other.runs[0].header.settings
    return all(
        ours.get(key) == theirs.get(key)
        for key in {*ours, *theirs} - {"attack", "estimator", "seed", "malicious", "rounds"}
    )


Graded = list[tuple[Arm, ArmGrade]]


def _attacks(graded: Graded) -> Iterator[Finding]:
    if not graded:
        return
    names = list(dict.fromkeys(arm.attack for arm, _ in graded))
    counts = sorted({(len(run.header.malicious or ()), run.header.clients) for arm, _ in graded for run in arm.runs})
    who = " or ".join(f"{bad} of {n} clients" for bad, n in counts if n) or "some clients"
    yield Finding("note", "Attacks", f"{who} attack: {', '.join(names)}.")


def _estimators(graded: Graded) -> Iterator[Finding]:
    """Yield for each estimator what it held against; the worst case is what counts."""
    for name in dict.fromkeys(arm.estimator for arm, _ in graded):
        own = [(arm, found) for arm, found in graded if arm.estimator == name and found.level != "unknown"]
        if not own:
            text = "not graded: there is no run without an attack to compare with, and no targeted attack."
            yield Finding("unknown", name, text)
            continue
        worst, why = max(own, key=lambda pair: (GRADES.index(pair[1].level), _damage(pair[1])))
        held = [arm for arm, found in own if found.level == "held"]
        broken = [arm for arm, found in own if found.level == "broken"]
        start = f"held against {len(held)} of {plural(len(own), 'attack')}" if len(own) > 1 else why.level
        broke = f", broken by {len(broken)}" if broken and len(own) > 1 else ""
        where = f"{worst.attack}{f' ({worst.setting})' if worst.setting else ''}"
        yield Finding(why.level, name, f"{start}{broke}. Worst case, {where}: {why.text}.")


def _damage(found: ArmGrade) -> float:
    return max(found.lost or 0.0, found.success or 0.0)


def _guarantees(graded: Graded) -> Iterator[Finding]:
    """Yield which guarantee applied, and whether it failed."""
    broken = [(arm, found) for arm, found in graded if found.level == "broken" and arm.estimator_kind == "filter-l2"]
    for several in by_guarantee([run for arm, _ in graded for run in arm.runs]):
        files = {run.file for run in several}
        yield guarantee(several, [arm.attack for arm, _ in broken if arm.runs[0].file in files])


def _headline(graded: Graded, every: Sequence[Arm]) -> tuple[Grade, str]:
    if not every:
        return "unknown", "There is no run to show yet."
    if not graded:
        return "unknown", _without_attack(every)
    known = [(arm, found) for arm, found in graded if found.level != "unknown"]
    if not known:
        return "unknown", "Clients attacked, but there is no run without an attack to compare with."
    names = list(dict.fromkeys(arm.estimator for arm, _ in known))
    of = {name: [found.level for arm, found in known if arm.estimator == name] for name in names}
    safe = [name for name in names if all(level == "held" for level in of[name])]
    lost = [name for name in names if "broken" in of[name]]
    fallen = f"; {_listed(lost)} {'was' if len(lost) == 1 else 'were'} broken" if lost else ""
    if safe:
        # An estimator that faced fewer attacks is not praised for all of them; the points name those it held against.
        most = max(len(of[name]) for name in safe)
        safe = [name for name in safe if len(of[name]) == most]
        against = {1: f"the attack ({known[0][0].attack})", 2: "both attacks"}.get(most, f"all {most} attacks")
        return "held", f"{_listed(safe)} held against {against}{fallen}."
    if len(lost) < len(names):
        rest = [name for name in names if name not in lost]
        return "degraded", f"No estimator held against every attack; {_listed(rest)} lost some accuracy{fallen}."
    return "broken", f"Every estimator was broken by some attack: {_listed(lost)}."


def _without_attack(every: Sequence[Arm]) -> str:
    runs = [run for arm in every for run in arm.runs]
    if all(run.header.source == "deployment" for run in runs):
        rounds = sum(run.seen for run in runs)
        skipped = sum(record.skipped is not None for run in runs for record in run.rounds)
        return f"Deployment: {plural(rounds, 'round')}, {skipped or 'none'} skipped."
    ends = [found.at(found.last) or 0.0 for arm in every if (found := curve(arm.runs, accuracy)) is not None]
    return f"Nobody attacked.{f' The best accuracy is {percent(max(ends))}.' if ends else ''}"


def _listed(names: Sequence[str]) -> str:
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} others"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
