"""Print what noise for differential privacy costs: three tables for docs/what_the_server_learns.md.

f2ed run privacy_dial --out results
python docs/scripts/privacy_dial.py results/privacy_dial
"""

import sys
from pathlib import Path

from f2ed.experiments.reproduction.privacy_dial import attack_table, noise_speed, shift_table, training_table
from f2ed.records import read_all

if __name__ == "__main__":
    tables = training_table(read_all(Path(sys.argv[1]))), attack_table(), shift_table(), [noise_speed()]
    sys.stdout.write("\n\n".join("\n".join(table) for table in tables) + "\n")
