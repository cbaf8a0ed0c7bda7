"""Print how well a server recovers single clients under each sharding schedule: python docs/scripts/resharding.py."""

import sys

from f2ed.experiments.reproduction.recovery import recovery_table

if __name__ == "__main__":
    sys.stdout.write(recovery_table())
