"""Print what each sharding schedule costs.

f2ed run schedules --out results
python docs/scripts/schedules.py results/schedules
"""

import sys
from pathlib import Path

from f2ed.experiments.reproduction.schedules import schedule_costs
from f2ed.records import read_all

if __name__ == "__main__":
    sys.stdout.write(schedule_costs(read_all(Path(sys.argv[1]))))
