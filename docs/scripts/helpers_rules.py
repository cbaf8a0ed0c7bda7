"""Print how helpers and shards withstand the same attacks, each under the rules that it can run.

f2ed run helpers_rules --out results
python docs/scripts/helpers_rules.py results/helpers_rules
"""

import sys
from pathlib import Path

from f2ed.experiments.reproduction.helpers import helpers_by_rule
from f2ed.records import read_all

if __name__ == "__main__":
    sys.stdout.write(helpers_by_rule(read_all(Path(sys.argv[1]))))
