"""What the records say, in plain words: what was attacked, what held, and which guarantee applied.

Everything here is computed from the records. An attack is judged at the end of the run, on the mean over seeds:

    held     the accuracy is at most 5 points below that without an attack, and a targeted attack
             gets what it wants in at most 20 % of inputs
    dented   worse than that
    broken   20 points or more are lost, or a targeted attack succeeds in half of the inputs or more

Without a run that nobody attacked there is nothing to compare the accuracy with, and it is not judged.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, final

import msgspec

from f2ed.report.arms import Arm
from f2ed.report.crowd import schedule
from f2ed.report.curves import Curve, accuracy, curve, success
from f2ed.report.words import percent, plural

__all__ = ["Judgement", "Level", "Point", "Verdict", "judge", "verdict"]

LOST_LITTLE, LOST_MUCH = 0.05, 0.20
SUCCESS_LITTLE, SUCCESS_MUCH = 0.20, 0.50

Level = Literal["held", "dented", "broken", "unknown"]
_ORDER: tuple[Level, ...] = ("held", "dented", "broken")


@final
class Judgement(msgspec.Struct, frozen=True):
    """How one attacked arm ended."""

    level: Level
    text: str
    accuracy: float | None
    lost: float | None
    """Accuracy lost to the attack; None where there is no run without one."""
    success: float | None


@final
class Point(msgspec.Struct, frozen=True):
    """One sentence of the verdict; `level` "note" is neither good nor bad."""

    level: Literal["held", "dented", "broken", "unknown", "note"]
    about: str
    text: str


@final
class Verdict(msgspec.Struct, frozen=True):
    """What stands on top of the page."""

    level: Level
    headline: str
    points: tuple[Point, ...]


def judge(arm: Arm, every: Sequence[Arm]) -> Judgement | None:
    """Judge an attacked arm against the arms without an attack; None if nobody attacked, or no round is over."""
    reached, wanted = curve(arm.runs, accuracy), curve(arm.runs, success)
    if not arm.attacked or (reached is None and wanted is None):
        return None
    end = max(each.last for each in (reached, wanted) if each is not None)
    now = None if reached is None else reached.at(end)
    hit = None if wanted is None else wanted.at(end)
    calm, whose = _calm(arm, every)
    lost = _lost(reached, calm)
    levels = [_graded(lost, LOST_LITTLE, LOST_MUCH), _graded(hit, SUCCESS_LITTLE, SUCCESS_MUCH)]
    known = [level for level in levels if level != "unknown"]
    level: Level = max(known, key=_ORDER.index) if known else "unknown"
    return Judgement(level, "; ".join(_told(now, lost, hit, whose)), now, lost, hit)


def verdict(every: Sequence[Arm]) -> Verdict:
    """Sum up all arms."""
    attacked = [(arm, found) for arm in every if (found := judge(arm, every)) is not None]
    points = [*_attacked(attacked), *_held(attacked), *_guarantees(attacked), *_hidden(every), *_unfinished(every)]
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
    return best, "" if other.estimator == arm.estimator else f"{other.estimator} "


def _comparable(one: Arm, other: Arm) -> bool:
    """Say whether two arms have the same setting, but for the number of clients that attack in only one of them."""
    ours, theirs = one.runs[0].header.settings, other.runs[0].header.settings
    return all(
        ours.get(key) == theirs.get(key)
        for key in {*ours, *theirs} - {"attack", "estimator", "seed", "malicious", "rounds"}
    )


def _graded(found: float | None, little: float, much: float) -> Level:
    if found is None:
        return "unknown"
    return "held" if found <= little else "dented" if found < much else "broken"


def _told(now: float | None, lost: float | None, hit: float | None, whose: str) -> Iterator[str]:
    if now is not None and lost is None:
        yield f"accuracy {percent(now)}, with no run without an attack to compare it with"
    elif now is not None and lost is not None:
        yield f"accuracy {percent(now)}, {_points(lost, whose)}"
    if hit is not None:
        yield f"the attack succeeds in {percent(hit)} of inputs"


def _points(lost: float, whose: str) -> str:
    if abs(lost) < 0.005:
        return f"as {whose}without the attack"
    points = round(abs(lost) * 100, 1)
    counted = "1 point" if points == 1 else f"{points:g} points"
    return f"{counted} {'less' if lost > 0 else 'more'} than {whose}without the attack"


Judged = list[tuple[Arm, Judgement]]


def _attacked(judged: Judged) -> Iterator[Point]:
    if not judged:
        return
    names = list(dict.fromkeys(arm.attack for arm, _ in judged))
    counts = sorted({(len(run.header.malicious), run.header.clients) for arm, _ in judged for run in arm.runs})
    who = " or ".join(f"{bad} of {n} clients" for bad, n in counts if n) or "Some clients"
    yield Point("note", "What was attacked", f"{who} attacked: {', '.join(names)}.")


def _held(judged: Judged) -> Iterator[Point]:
    """Say of each estimator what it withstood; the worst case is what counts."""
    for name in dict.fromkeys(arm.estimator for arm, _ in judged):
        own = [(arm, found) for arm, found in judged if arm.estimator == name and found.level != "unknown"]
        if not own:
            text = "not judged: there is no run without an attack to compare with, and no targeted attack."
            yield Point("unknown", name, text)
            continue
        worst, why = max(own, key=lambda pair: (_ORDER.index(pair[1].level), _damage(pair[1])))
        held = [arm for arm, found in own if found.level == "held"]
        broken = [arm for arm, found in own if found.level == "broken"]
        start = f"held against {len(held)} of {plural(len(own), 'attack')}" if len(own) > 1 else _once(why.level)
        broke = f", broken by {len(broken)}" if broken and len(own) > 1 else ""
        where = f"{worst.attack}{f' ({worst.setting})' if worst.setting else ''}"
        yield Point(why.level, name, f"{start}{broke}. Worst case, {where}: {why.text}.")


def _once(level: Level) -> str:
    return {"held": "held", "dented": "dented", "broken": "broken", "unknown": "not judged"}[level]


def _damage(found: Judgement) -> float:
    return max(found.lost or 0.0, found.success or 0.0)


def _guarantees(judged: Judged) -> Iterator[Point]:
    """Say which guarantee the numbers give, whether its condition was met in every round, and what came of it."""
    regions: dict[tuple[int, int, str], Judged] = {}
    for arm, found in judged:
        promise = arm.runs[0].header.guarantee
        key = (int(promise.get("malicious", 0)), int(promise.get("shards", 0)), str(promise.get("region", "")))
        regions.setdefault(key, []).append((arm, found))
    for (malicious, shards, region), members in regions.items():
        if not region or not shards:
            yield Point("unknown", "Guarantee", "the records do not say which guarantee applied.")
            continue
        noun = "updates" if members[0][0].runs[0].header.mode == "none" else "shards"
        share = percent(min(1, malicious / shards))
        spoilt = f"{plural(malicious, 'malicious client')} can spoil {share} of {shards} {noun}"
        yield _promise(spoilt, region, members)


def _promise(spoilt: str, region: str, members: Judged) -> Point:
    records = [record for arm, _ in members for run in arm.runs for record in run.rounds]
    worse = sum(record.guarantee not in {"", region, "theorem"} for record in records)
    closed = (
        f" In {worse} of {plural(len(records), 'round')} so many rows were missing that less was promised."
        if worse
        else ""
    )
    if region == "nothing":
        return Point("broken", "Guarantee", f"none. {spoilt}: half or more, against which no rule can help.{closed}")
    if region != "theorem":
        text = f"none, experience only. {spoilt}; the theorem asks for less than 1/12.{closed}"
        return Point("dented", "Guarantee", text)
    covered = [(arm, found) for arm, found in members if arm.estimator_name == "filter-l2"]
    text = f"the theorem. {spoilt}: less than 1/12, so it bounds what they can do to FilterL2.{closed}"
    if not covered:
        return Point("note", "Guarantee", f"{text} FilterL2 was not run, and the others have no such theorem.")
    failed = [arm.attack for arm, found in covered if found.level == "broken"]
    if failed:
        return Point(
            "broken", "Guarantee", f"{text} Broken all the same by {', '.join(failed)}: look at the shards below."
        )
    return Point("dented" if worse else "held", "Guarantee", f"{text} It was not broken.")


def _hidden(every: Sequence[Arm]) -> Iterator[Point]:
    runs = [run for arm in every for run in arm.runs]
    masked = [run for run in runs if run.header.mode not in {"clear", "none", "unknown"}]
    clear = sum(run.header.mode == "clear" for run in runs)
    bare = sum(run.header.mode == "none" for run in runs)
    if masked:
        least = min(run.hidden_among for run in masked)
        which = "" if len(masked) == len(runs) else f" in {len(masked)} of {plural(len(runs), 'run')}"
        level: Level = "held" if least > 1 else "broken"
        yield Point(level, "Privacy", f"every update was hidden among at least {plural(least, 'client')}{which}.")
    if bare:
        which = "in every run" if bare == len(runs) else f"in {bare} of {plural(len(runs), 'run')}"
        yield Point("broken", "Privacy", f"the server saw each update by itself {which}: there were no shards.")
    if clear:
        which = "Every run" if clear == len(runs) else f"{clear} of {plural(len(runs), 'run')}"
        yield Point("note", "Privacy", f"{which} added the same integers in the clear (secure = false), to save time.")
    if dealt := sum(schedule(run.header.settings) not in {"", "fixed"} for run in masked):
        text = "dealt the shards anew, which lets the server compare sums and solve for one client."
        yield Point("dented", "Privacy", f"{plural(dealt, 'run')} {text}")


def _unfinished(every: Sequence[Arm]) -> Iterator[Point]:
    runs = [run for arm in every for run in arm.runs]
    done = sum(run.finished for run in runs)
    if done < len(runs):
        reached = f"{done} of {plural(len(runs), 'run')} {'has' if len(runs) == 1 else 'have'} reached the last round"
        yield Point("note", "Not finished", f"{reached}; this is how things stand now.")


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
