"""The verdict on top of the page: which estimator held against what, on the mean over seeds, and what was promised."""

from collections.abc import Iterator, Sequence
from typing import final

import msgspec

from f2ed.records.text import (
    LEVELS,
    Level,
    Remark,
    by_promise,
    ending,
    graded,
    percent,
    plural,
    privacy,
    promise,
    unfinished,
)
from f2ed.report.arms import Arm
from f2ed.report.curves import Curve, accuracy, curve, success

__all__ = ["Judgment", "Verdict", "judge", "verdict"]


@final
class Judgment(msgspec.Struct, frozen=True):
    """How one attacked arm ended."""

    level: Level
    text: str
    accuracy: float | None
    lost: float | None
    """Accuracy lost to the attack; None where there is no run without one."""
    success: float | None


@final
class Verdict(msgspec.Struct, frozen=True):
    """What stands on top of the page."""

    level: Level
    headline: str
    points: tuple[Remark, ...]


def judge(arm: Arm, every: Sequence[Arm]) -> Judgment | None:
    """Judge an attacked arm against the arms without an attack; None if nobody attacked, or no round is over."""
    reached, wanted = curve(arm.runs, accuracy), curve(arm.runs, success)
    if not arm.attacked or (reached is None and wanted is None):
        return None
    end = max(each.last for each in (reached, wanted) if each is not None)
    now = None if reached is None else reached.at(end)
    hit = None if wanted is None else wanted.at(end)
    calm, whose = _calm(arm, every)
    lost = _lost(reached, calm)
    return Judgment(graded(lost, hit), ending(now, lost, hit, whose), now, lost, hit)


def verdict(every: Sequence[Arm]) -> Verdict:
    """Sum up all arms."""
    attacked = [(arm, found) for arm in every if (found := judge(arm, every)) is not None]
    runs = [run for arm in every for run in arm.runs]
    points = [*_attacked(attacked), *_held(attacked), *_promises(attacked), *privacy(runs), *unfinished(runs)]
    return Verdict(*_headline(attacked, every), tuple(points))


def _lost(reached: Curve | None, calm: Curve | None) -> float | None:
    """Compare at the last round that both have: a run under way is measured by where the other one was by then."""
    if reached is None or calm is None:
        return None
    moment = min(reached.last, calm.last)
    now, before = reached.at(moment), calm.at(moment)
    return None if now is None or before is None else before - now


def _calm(arm: Arm, every: Sequence[Arm]) -> tuple[Curve | None, str]:
    """Return the accuracy of the same without an attack; failing that, the best that anyone reached, and who."""
    others = [other for other in every if not other.attacked and _comparable(other, arm)]
    same = [other for other in others if other.estimator == arm.estimator] or [
        other for other in others if other.estimator_name == arm.estimator_name
    ]
    curves = [(found, other) for other in same or others if (found := curve(other.runs, accuracy)) is not None]
    if not curves:
        return None, ""
    best, other = max(curves, key=lambda pair: pair[0].at(pair[0].last) or 0.0)
    return best, "" if other.estimator == arm.estimator else other.estimator


def _comparable(one: Arm, other: Arm) -> bool:
    """Say whether two arms have the same setting, but for the number of clients that attack in only one of them."""
    ours, theirs = one.runs[0].header.settings, other.runs[0].header.settings
    return all(
        ours.get(key) == theirs.get(key)
        for key in {*ours, *theirs} - {"attack", "estimator", "seed", "malicious", "rounds"}
    )


Judged = list[tuple[Arm, Judgment]]


def _attacked(judged: Judged) -> Iterator[Remark]:
    if not judged:
        return
    names = list(dict.fromkeys(arm.attack for arm, _ in judged))
    counts = sorted({(len(run.header.malicious or ()), run.header.clients) for arm, _ in judged for run in arm.runs})
    who = " or ".join(f"{bad} of {n} clients" for bad, n in counts if n) or "Some clients"
    yield Remark("note", "What was attacked", f"{who} attacked: {', '.join(names)}.")


def _held(judged: Judged) -> Iterator[Remark]:
    """Say of each estimator what it withstood; the worst case is what counts."""
    for name in dict.fromkeys(arm.estimator for arm, _ in judged):
        own = [(arm, found) for arm, found in judged if arm.estimator == name and found.level != "unknown"]
        if not own:
            text = "not judged: there is no run without an attack to compare with, and no targeted attack."
            yield Remark("unknown", name, text)
            continue
        worst, why = max(own, key=lambda pair: (LEVELS.index(pair[1].level), _damage(pair[1])))
        held = [arm for arm, found in own if found.level == "held"]
        broken = [arm for arm, found in own if found.level == "broken"]
        start = f"held against {len(held)} of {plural(len(own), 'attack')}" if len(own) > 1 else _once(why.level)
        broke = f", broken by {len(broken)}" if broken and len(own) > 1 else ""
        where = f"{worst.attack}{f' ({worst.setting})' if worst.setting else ''}"
        yield Remark(why.level, name, f"{start}{broke}. Worst case, {where}: {why.text}.")


def _once(level: Level) -> str:
    return {"held": "held", "dented": "dented", "broken": "broken", "unknown": "not judged"}[level]


def _damage(found: Judgment) -> float:
    return max(found.lost or 0.0, found.success or 0.0)


def _promises(judged: Judged) -> Iterator[Remark]:
    """Say which guarantee the numbers give, and what came of it."""
    broken = [(arm, found) for arm, found in judged if found.level == "broken" and arm.estimator_name == "filter-l2"]
    for several in by_promise([run for arm, _ in judged for run in arm.runs]):
        files = {run.file for run in several}
        yield promise(several, [arm.attack for arm, _ in broken if arm.runs[0].file in files])


def _headline(judged: Judged, every: Sequence[Arm]) -> tuple[Level, str]:
    if not every:
        return "unknown", "There is no run to show yet."
    known = [(arm, found) for arm, found in judged if found.level != "unknown"]
    if not judged:
        best = max((found.at(found.last) or 0.0 for arm in every if (found := curve(arm.runs, accuracy))), default=None)
        reached = "" if best is None else f" The best accuracy is {percent(best)}."
        return "unknown", f"Nobody attacked.{reached}"
    if not known:
        return "unknown", "Clients attacked, but there is no run without an attack to judge them by."
    names = list(dict.fromkeys(arm.estimator for arm, _ in known))
    of = {name: [found.level for arm, found in known if arm.estimator == name] for name in names}
    safe = [name for name in names if all(level == "held" for level in of[name])]
    lost = [name for name in names if "broken" in of[name]]
    fallen = f"; {_listed(lost)} {'was' if len(lost) == 1 else 'were'} broken" if lost else ""
    if safe:
        # Who met fewer attacks is not praised for all of them; the points say against which it held.
        most = max(len(of[name]) for name in safe)
        safe = [name for name in safe if len(of[name]) == most]
        against = {1: f"the attack ({known[0][0].attack})", 2: "both attacks"}.get(most, f"all {most} attacks")
        return "held", f"{_listed(safe)} held against {against}{fallen}."
    if len(lost) < len(names):
        bent = [name for name in names if name not in lost]
        return "dented", f"No estimator held against every attack; {_listed(bent)} lost something{fallen}."
    return "broken", f"Every estimator was broken by some attack: {_listed(lost)}."


def _listed(names: Sequence[str]) -> str:
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} others"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
