"""Runs the mutants that still live with all tests that reach them, many mutants at the same time.

Mutants of different functions can be in place together. If a test passes with all of them, it notices none; if it
fails, it is run again with one half and with the other, and so on, until it fails with one mutant alone. So each mutant
meets each of its tests, alone or in company, and few runs of the suite are enough for all. A mutant could hide another
one from a test; that is the price.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from listed import Explained
from made import Mutant
from outcomes import Result, ending, write

PIECE = 8.0
"""Seconds of tests of one fork."""


class Driver(Protocol):
    """What runs forks."""

    whole: bool
    """Whether all tests of the scope are run."""

    def each(self, waiting: Any) -> Iterator[Any]:
        """Run what waits."""

    def seconds(self, test: str) -> float:
        """Return how long a test takes."""

    def show(self, progress: str) -> None:
        """Print how far it is."""


class Group:
    """Mutants of different functions, and how many pieces of their tests are not done."""

    def __init__(self, mutants: Iterable[Mutant]) -> None:
        self.living = {each.name: each for each in mutants}
        self.pieces = 0


class Piece(NamedTuple):
    """Tests that a group is run with, in this order."""

    group: Group
    tests: list[str]


class Search:
    """A test that failed with a group, and how many forks still look for the mutants that it notices."""

    def __init__(self, piece: Piece, index: int) -> None:
        self.piece, self.index = piece, index
        self.forks = 0
        self.found = False

    @property
    def test(self) -> str:
        """The test that failed."""
        return self.piece.tests[self.index]


class Together:
    """All groups, the first ones first."""

    def __init__(self, driver: Driver, mutants: list[Mutant], reaching: dict[str, list[str]], out: Any) -> None:
        self.driver, self.reaching, self.out = driver, reaching, out
        self.waiting: deque[tuple[tuple[Mutant, ...], list[str], Any]] = deque()
        self.unreliable: set[str] = set()
        self.groups = grouped(mutants)
        self.all_tests = list(dict.fromkeys(test for tests in reaching.values() for test in tests))

    def run(self) -> None:
        """Run everything."""
        for count, group in enumerate(self.groups):
            self.add(group)
            print(f"group {count + 1} of {len(self.groups)}: {len(group.living)} mutants, {group.pieces} pieces")
        for ended in self.driver.each(self.next_job):
            if isinstance(ended.job.about, Piece):
                self.piece_ended(ended)
            else:
                self.search_ended(ended)
            done = sum(not group.pieces for group in self.groups)
            self.driver.show(f"{done} of {len(self.groups)} groups, {len(self.waiting)} pieces wait")

    def next_job(self) -> tuple[tuple[Mutant, ...], list[str], Any] | None:
        """Return what to run next: a piece with the mutants of its group that still live."""
        while self.waiting:
            mutants, tests, about = self.waiting.popleft()
            if not isinstance(about, Piece):
                return mutants, tests, about
            if about.group.living:
                return tuple(about.group.living.values()), tests, about
            about.group.pieces -= 1
        return None

    def add(self, group: Group) -> None:
        """Let a group wait with all of its tests, in pieces."""
        wanted = {test for each in group.living.values() for test in self.reaching[each.function]}
        tests, seconds = [], 0.0
        for test in sorted(wanted, key=self.all_tests.index):
            tests.append(test)
            seconds += self.driver.seconds(test)
            if seconds > PIECE:
                self.append(group, tests)
                tests, seconds = [], 0.0
        if tests:
            self.append(group, tests)

    def append(self, group: Group, tests: list[str]) -> None:
        """Let one piece wait."""
        group.pieces += 1
        self.waiting.append(((), tests, Piece(group, tests)))

    def go_on(self, piece: Piece, index: int) -> None:
        """Run the tests of a piece from this one on, with the mutants that still live, before everything else."""
        tests, living = piece.tests[index:], tuple(piece.group.living.values())
        if tests and living:
            self.waiting.appendleft(((), tests, Piece(piece.group, tests)))
            return
        piece.group.pieces -= 1
        if not piece.group.pieces:
            for mutant in living:
                self.note(mutant, ending(0, whole=self.driver.whole), "")

    def piece_ended(self, ended: Any) -> None:
        """Go on after the tests that passed."""
        piece, index = ended.job.about, ended.passed
        if ended.code == 0 or index >= len(piece.tests):
            self.go_on(piece, len(piece.tests))
        elif len(ended.job.mutants) > len(piece.group.living):
            self.go_on(piece, index)  # perhaps it was one that was found in another piece
        elif piece.tests[index] in self.unreliable:
            self.go_on(piece, index + 1)
        else:
            self.look(Search(piece, index), ())  # whether it passes without a mutant

    def look(self, search: Search, mutants: tuple[Mutant, ...]) -> None:
        """Run the test of a search with these mutants, before everything else."""
        search.forks += 1
        self.waiting.appendleft((mutants, [search.test], search))

    def search_ended(self, ended: Any) -> None:
        """Search on in both halves, or note the one that was found."""
        search, mutants = ended.job.about, ended.job.mutants
        search.forks -= 1
        living = tuple(search.piece.group.living.values())
        if ended.code == 0 and not mutants and living:
            self.look(search, tuple(each for each in living if search.test in self.reaching[each.function]) or living)
        elif ended.code != 0 and not mutants:
            self.unreliable.add(search.test)
            print(f"fails now without any mutant, left out: {search.test}")
        elif ended.code != 0 and len(mutants) == 1:
            search.found = True
            if search.piece.group.living.pop(mutants[0].name, None):
                self.note(mutants[0], ending(ended.code, whole=True), search.test)
        elif ended.code != 0:
            half = len(mutants) // 2
            self.look(search, mutants[:half])
            self.look(search, mutants[half:])
        if not search.forks:
            self.go_on(search.piece, search.index + (not search.found))

    def note(self, mutant: Mutant, end: str, test: str) -> None:
        """Write how a mutant ended."""
        of = len(self.reaching[mutant.function])
        write(self.out, Result(mutant.name, mutant.source, end, test, of, of, 0.0))


def grouped(mutants: Iterable[Mutant]) -> list[Group]:
    """Return groups with at most one mutant of each function; those that nobody explained come first."""
    explained = Explained.read().why
    groups: list[dict[str, Mutant]] = []
    count: dict[str, int] = {}
    for each in sorted(mutants, key=lambda each: each.name in explained):
        index = count[each.function] = count.get(each.function, -1) + 1
        if index == len(groups):
            groups.append({})
        groups[index][each.function] = each
    return [Group(each.values()) for each in groups]
