"""Runs tests in forks of a process that has collected all of them: first without a change, then with each mutant.

A fork costs milliseconds, so that every test can be run alone once, which tells what it reaches and how long it takes.
A mutant meets only the tests that reach its function: a few seconds of them first, alone, beginning with those that
killed others of that function; then the rest, together with other mutants.
"""

import contextlib
import gc
import json
import os
import resource
import shutil
import signal
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from active import ACTIVE, forget, install
from jobs import Ended, Job, Limits
from made import ROOT, WORK, Mutant
from outcomes import RESULTS, Result, ending, results, write
from together import Together

REACHED = WORK / "reached.json"
FAILED, BROKEN = 1, 3
PASSED = b"."
LIMIT = 8 * 2**30
"""Bytes of memory of a fork."""
SCRATCH = Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp") / f"mutants-{os.getpid()}"  # noqa: S108
SPARE, PATIENCE = 10.0, 6.0
"""Seconds more than ten times what a test takes, before it counts as hanging: of CPU time, or so many times longer."""


def run(mutants: list[Mutant], limits: Limits) -> None:
    """Collect the tests of the scope and run the mutants with them."""
    install()
    os.chdir(ROOT)
    scope = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["tool"]["mutmut"]
    tests = [*(limits.tests or scope["pytest_add_cli_args_test_selection"]), *scope["pytest_add_cli_args"]]
    quiet = ["--capture=sys", "--tb=short", "--no-header", "-p", "no:xdist"]
    pytest.main([*quiet, *tests], plugins=[Forks(mutants, limits)])


class Forks:
    """A plug-in that takes the place of pytest's loop over the tests."""

    def __init__(self, mutants: list[Mutant], limits: Limits) -> None:
        self.mutants, self.limits = mutants, limits
        self.end = time.monotonic() + limits.seconds
        self.items: dict[str, pytest.Item] = {}
        self.jobs: dict[int, Job] = {}
        self.reports: dict[str, Any] = {}
        self.killers: dict[str, Counter[str]] = defaultdict(Counter)
        self.child: int | None = None
        """Where a fork writes; none in the parent."""
        self.shown = 0.0

    # pytest's hooks

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run everything."""
        self.items = {item.nodeid: item for item in session.items}
        self.quick_properties()
        gc.collect()
        gc.freeze()
        if REACHED.exists() and not self.limits.record:
            self.reports = json.loads(REACHED.read_text("utf-8"))
        try:
            self.run_alone([name for name in self.items if name not in self.reports])
            self.run_mutants()
        except KeyboardInterrupt:
            print("stopped; what was finished is kept")
        finally:
            for pid in self.jobs:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            shutil.rmtree(SCRATCH, ignore_errors=True)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End a fork at the first failure."""
        if self.child is not None and report.failed:
            self.leave(FAILED, {"test": report.nodeid, "why": str(report.longrepr)[-2000:]})

    # In a fork

    def leave(self, code: int, said: dict[str, Any]) -> None:
        """Tell the parent and end."""
        assert self.child is not None  # noqa: S101
        os.write(self.child, json.dumps(said).encode()[:60000])
        os._exit(code)

    def work(self, job: Job) -> None:
        """Run the tests of a job and end."""
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        null = os.open(os.devnull, os.O_RDWR)
        for each in range(3):
            os.dup2(null, each)
        ACTIVE.reached.clear()  # what was reached while the tests were collected
        ACTIVE.versions = {each.function: each.version for each in job.mutants}
        config = next(iter(self.items.values())).config
        job.folder.mkdir(parents=True)
        config._tmp_path_factory._basetemp = job.folder  # type: ignore[attr-defined]  # noqa: SLF001
        began = time.monotonic()
        items = [self.items[each] for each in job.tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            limit = SPARE + 10 * self.reports.get(item.nodeid, {}).get("seconds", 6)
            signal.setitimer(signal.ITIMER_PROF, limit)
            signal.setitimer(signal.ITIMER_REAL, PATIENCE * limit)
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            forget()
            os.write(self.child, PASSED)  # type: ignore[arg-type]
        alone = {"reached": sorted(ACTIVE.reached), "seconds": time.monotonic() - began}
        self.leave(0, {} if job.mutants else alone)

    # In the parent

    def start(self, mutants: tuple[Mutant, ...], tests: list[str], about: Any = None) -> None:
        """Fork."""
        read, write = os.pipe()
        folder = SCRATCH / str(time.monotonic_ns())
        job = Job(mutants, tests, about, time.monotonic(), folder, read)
        pid = os.fork()
        if pid == 0:
            try:
                os.close(read)
                self.child = write
                self.work(job)
            except BaseException as error:  # noqa: BLE001  told to the parent
                os.write(write, json.dumps({"test": "", "why": repr(error)}).encode())
            finally:
                os._exit(BROKEN)
        os.close(write)
        self.jobs[pid] = job

    def wait(self) -> Ended:
        """Return the next job that ended."""
        pid, status = os.waitpid(-1, 0)
        while pid not in self.jobs:
            pid, status = os.waitpid(-1, 0)
        job = self.jobs.pop(pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.set_blocking(job.output, False)
        output, said = b"", {}
        with contextlib.suppress(BlockingIOError):
            output = os.read(job.output, 65536)
        with contextlib.suppress(ValueError):
            said = json.loads(output.lstrip(PASSED) or b"{}")
        os.close(job.output)
        shutil.rmtree(job.folder, ignore_errors=True)
        return Ended(job, os.waitstatus_to_exitcode(status), said, len(output) - len(output.lstrip(PASSED)))

    def each(self, waiting: Callable[[], tuple[Any, ...] | None]) -> Iterator[Ended]:
        """Run what waits, as many at the same time as there are children, until nothing waits or the time is over."""
        while True:
            while (
                len(self.jobs) < self.limits.children
                and time.monotonic() < self.end
                and (entry := waiting()) is not None
            ):
                self.start(*entry)
            if not self.jobs:
                return
            yield self.wait()

    def run_alone(self, tests: list[str]) -> None:
        """Run each test alone, without a mutant, however long it takes: half of it would be worth nothing."""
        end, self.end = self.end, float("inf")
        waiting = iter(tests)
        for job, code, said, _ in self.each(lambda: ((), [name]) if (name := next(waiting, None)) else None):
            if code == 0:
                self.reports[job.tests[0]] = said
            else:
                print(f"fails without any mutant, left out: {job.tests[0]} ({code}) {said.get('why', '')[-600:]}")
        self.end = end
        REACHED.write_text(json.dumps(self.reports), "utf-8")
        print(
            f"{len(self.reports)} tests take {sum(each['seconds'] for each in self.reports.values()):.0f} s", flush=True
        )

    def run_mutants(self) -> None:
        """Run the mutants that have no result: all with some of their tests, then those that live with the others."""
        self.reports = {
            name: each for name, each in json.loads(REACHED.read_text("utf-8")).items() if name in self.items
        }
        reaching: dict[str, list[str]] = defaultdict(list)
        for test, said in self.reports.items():
            for function in said["reached"]:
                reaching[function].append(test)
        known = results()
        for each in known.values():
            if each.end == "killed":
                self.killers[each.name.partition(" | ")[0]][each.test] += 1
        with RESULTS.open("a", encoding="utf-8") as out:
            waiting = [each for each in self.mutants if self.waits(each, known.get(each.name))]
            for each in [each for each in waiting if self.whole and not reaching[each.function]]:
                write(out, Result(each.name, each.source, "no test", "", 0, 0, 0.0))
            waiting = [each for each in waiting if reaching[each.function]]
            self.run_some(waiting, reaching, out)
            known = results()
            opened = [each for each in self.mutants if each.name in known and known[each.name].end == "open"]
            Together(self, opened, reaching, out).run()

    def waits(self, mutant: Mutant, last: Result | None) -> bool:
        """Return whether a mutant has to be run."""
        return (
            last is None
            or last.source != mutant.source
            or (self.limits.again and last.end not in {"killed", "timeout"})
        )

    def run_some(self, waiting: list[Mutant], reaching: dict[str, list[str]], out: Any) -> None:
        """Run these mutants, each with tests that take no longer than the budget."""

        def jobs() -> Iterator[tuple[Any, ...]]:
            for mutant in waiting:
                tests = self.ordered(mutant.function, reaching[mutant.function])
                yield (mutant,), affordable(tests, self.limits.budget, self.seconds), len(tests)

        left = jobs()
        for count, (job, code, said, _) in enumerate(self.each(lambda: next(left, None))):
            taken, end = time.monotonic() - job.began, ending(code, whole=self.whole and len(job.tests) == job.about)
            (mutant,), test = job.mutants, said.get("test", "")
            if end == "killed" and test:
                self.killers[mutant.function][test] += 1
            write(out, Result(mutant.name, mutant.source, end, test, len(job.tests), job.about, round(taken, 3)))
            self.show(f"{count + 1} of {len(waiting)}")

    @property
    def whole(self) -> bool:
        """Whether a mutant that lives with all collected tests survived: they are all of the scope."""
        return not self.limits.tests

    def show(self, progress: str) -> None:
        """Print now and then how far it is."""
        if time.monotonic() > self.shown + 15:
            self.shown = time.monotonic()
            print(progress, dict(Counter(each.end for each in results().values())), flush=True)

    def seconds(self, test: str) -> float:
        """Return how long a test takes."""
        return float(self.reports[test]["seconds"])

    def ordered(self, function: str, tests: list[str]) -> list[str]:
        """Return the tests in the order in which they are tried; those that reach little else come early."""
        killers = self.killers[function]

        def rank(test: str) -> tuple[float, float]:
            seconds = self.seconds(test)
            return -killers[test] / (0.1 + seconds), len(self.reports[test]["reached"]) + 50 * seconds

        return sorted(tests, key=rank)

    def quick_properties(self) -> None:
        """Let properties try few examples, and not look for the smallest that fails."""
        from hypothesis import Phase, settings  # noqa: PLC0415

        for item in self.items.values():
            test = getattr(item, "function", None)
            if (given := getattr(test, "_hypothesis_internal_use_settings", None)) is not None:
                test._hypothesis_internal_use_settings = settings(  # type: ignore[union-attr]  # noqa: SLF001
                    given,
                    max_examples=min(given.max_examples, 15),
                    derandomize=True,
                    database=None,
                    deadline=None,
                    phases=(Phase.explicit, Phase.generate),
                )


def affordable(tests: list[str], budget: float, seconds: Callable[[str], float]) -> list[str]:
    """Return the first tests that together keep to the budget; one at least."""
    total, count = 0.0, 0
    for each in tests:
        total += seconds(each)
        if count and total > budget:
            break
        count += 1
    return tests[:count]
