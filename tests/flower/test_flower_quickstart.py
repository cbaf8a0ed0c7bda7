"""An existing Flower app gains both protections by two lines on each side: the diffs of the pages, applied and run."""

import sys
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from f2ed.deployment.rule_text import exact_rules, parse_rule
from f2ed.deployment.training_rules import TrainingRules
from tests.flower.adopted.apps import diffs, patched
from tests.flower.fake_grid import FakeGrid, Node, real_roster

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

ROOT = Path(__file__).parents[2]
QUICKSTART = Path(__file__).parent / "quickstart" / "quickstart"
PAGES = [ROOT / "examples" / "04_flower" / "README.md", ROOT / "docs" / "deploy_flower.md"]


@pytest.fixture
def app(tmp_path, monkeypatch):
    """Return a function that writes the app to a folder, changed or not, and runs it over a grid in this process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def run(changes):
        folder = tmp_path / "app" / "quickstart"
        folder.mkdir(parents=True)
        for path in QUICKSTART.glob("*.py"):
            text = path.read_text()
            text = patched(text, changes[path.name]) if path.name in changes else text
            (folder / path.name).write_text(text.replace("/etc/f2ed/roster.json", str(tmp_path / "roster.json")))
        monkeypatch.syspath_prepend(str(folder.parent))
        from quickstart import client_app, server_app, task

        torch.manual_seed(0)
        settings = {
            "fraction-train": 1.0,
            "num-server-rounds": 2,
            "lr": 0.1,
            "local-epochs": 3,
            "final-model": str(tmp_path / "final.pt"),
            "f2ed-roster": str(tmp_path / "roster.json"),
        }
        # What the authority signs with --app, and --setting for what the server sends.
        rules = TrainingRules(settings=(parse_rule("lr=float:0.0001..0.5"),), run_config=exact_rules(settings))
        _, own = real_roster(tmp_path, 8, shards=2, fields={"training": rules})
        nodes = [Node(each, client_app.app, own[each] | {"num-partitions": 8}, settings) for each in range(8)]
        grid = FakeGrid(nodes)
        server_app.app(grid, Context(1, 1, {}, RecordDict(), settings))
        net = task.Net()
        net.load_state_dict(torch.load(tmp_path / "final.pt"))
        return grid, sum(task.test(net, task.load_data(each, 8)[1]) for each in range(8)) / 8

    yield run
    torch.set_num_threads(threads)
    for name in [name for name in sys.modules if name.partition(".")[0] == "quickstart"]:
        del sys.modules[name]


def test_unchanged_it_sends_plain_updates(app):
    grid, accuracy = app({})
    assert accuracy > 0.8
    assert any("arrays" in reply.content for reply in grid.replies)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_two_lines_on_each_side_give_both_protections(app, page):
    changes = diffs(page.read_text())
    for diff in changes.values():
        assert sum(line.startswith("+") for line in diff) <= 2
    grid, accuracy = app(changes)
    assert accuracy > 0.8
    assert all(set(reply.content) == {"f2ed"} for reply in grid.replies)
    assert max(len(reply.content["f2ed"]["reply"].data) for reply in grid.replies) > 4 * 2410
