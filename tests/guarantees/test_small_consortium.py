"""What 5 to 12 sites are told: the numbers of the page are those of the planner."""

import re
from pathlib import Path

import pytest

from f2ed.guarantees import guarantee, plan_shards
from f2ed.guarantees.small_consortium import small_consortium

PAGE = (Path(__file__).parents[2] / "docs" / "choosing_p.md").read_text()
COLUMNS = {1: 1, 2: 2, 3: 3, 4: 5}


def test_eight_sites_in_two_shards_withstand_nobody_and_are_told():
    advice = plan_shards(clients=8, malicious=1, shards=2)
    assert not advice.ok
    assert "2 shards: every update is hidden among 4; tolerates nobody." in advice.small
    assert any("helper parties that do not collude" in line for line in advice.small)


@pytest.mark.parametrize("clients", range(2, 13))
def test_no_line_promises_more_than_the_guarantee(clients):
    for line in small_consortium(clients):
        if found := re.match(r"(\d+) shards?: every update is hidden among (\d+).*tolerates (nobody|\d+)", line):
            shards, crowd = int(found[1]), int(found[2])
            tolerated = 0 if found[3] == "nobody" else int(found[3])
            assert crowd == guarantee(clients=clients, malicious=0, shards=shards).crowd >= 2
            assert guarantee(clients=clients, malicious=tolerated + 1, shards=shards).region == "nothing"
            assert (
                not tolerated or guarantee(clients=clients, malicious=tolerated, shards=shards).region == "experience"
            )


def test_more_clients_or_no_attacker_get_no_such_lines():
    assert small_consortium(13) == small_consortium(1) == ()
    assert plan_shards(clients=8, malicious=0, min_crowd=4).small == ()


def test_the_table_of_the_page_is_what_the_planner_says():
    section = PAGE[PAGE.index("## Five to twelve sites") :]
    seen = set()
    for row in re.findall(r"^\| (\d[\d, ]*) \|(.*)\|$", section, re.MULTILINE):
        for clients in map(int, row[0].split(",")):
            seen.add(clients)
            lines = "\n".join(small_consortium(clients))
            for place, cell in enumerate(row[1].split("|"), 1):
                shards = COLUMNS[place]
                found = re.search(
                    rf"^{shards} shards?: every update is hidden among (\d+).*tolerates (nobody|\d)",
                    lines,
                    re.MULTILINE,
                )
                assert bool(cell.strip()) == bool(found), (clients, shards)
                if found:
                    assert found[1] in re.findall(r"\d+", cell)
                    assert ("nobody" if found[2] == "nobody" else f", {found[2]} by experience") in cell
    assert seen == set(range(5, 13))
