"""Change the security code in small ways, one at a time, and show which changes no test notices.

    python scripts/mutants/run.py [--children N] [--seconds N] [--again] [--tests PATH …] [PATTERN …]

Runs every mutant of the scope in pyproject.toml that has no result yet, and fails if one lives that explained.toml does
not explain. Interrupt it at any time: the next run goes on.
"""

import argparse
import os
import sys
from fnmatch import fnmatch

import listed
import made
import outcomes


def main() -> None:
    """Make, run and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help="only mutants with such names, e.g. 'f2ed.deployment.pin:*'")
    parser.add_argument("--children", type=int, default=os.cpu_count() or 1, help="processes at the same time")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no mutant after this time")
    parser.add_argument("--budget", type=float, default=4.0, help="seconds of tests in the first pass over all mutants")
    parser.add_argument("--tests", action="append", default=[], metavar="PATH", help="only these; may be repeated")
    parser.add_argument("--again", action="store_true", help="run again what lives")
    parser.add_argument("--made", action="store_true", help="take mutants and times of tests from the last run")
    parser.add_argument("--show", action="store_true", help="run nothing")
    given = parser.parse_args()
    mutants = made.load() if given.made or given.show else made.make()
    explained = listed.Explained.read()
    if given.patterns:

        def chosen(name: str) -> bool:
            return any(fnmatch(name, pattern) for pattern in given.patterns)

        mutants = [each for each in mutants if chosen(each.name)]
        explained = listed.Explained({name: why for name, why in explained.why.items() if chosen(name)})
    import forks  # noqa: PLC0415  it stands in for a module of mutmut, which has done its part

    if not given.show:
        amount = {"children": given.children, "seconds": given.seconds, "budget": given.budget, "tests": given.tests}
        forks.run(mutants, forks.Limits(**amount, record=not given.made, again=given.again))
    digests = {each.name: each.source for each in mutants}
    ends = {each.name: each.end for each in outcomes.results().values() if digests.get(each.name) == each.source}
    sys.exit(0 if listed.report(ends, digests, explained) else 1)


if __name__ == "__main__":
    main()
