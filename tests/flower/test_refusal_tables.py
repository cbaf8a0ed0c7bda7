"""The page's tables of refusals: all that a client says, and nothing that nobody says."""

import ast
import inspect
import re
from pathlib import Path

from f2ed.flower import F2ed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy_flower.md").read_text()
CODE = ROOT / "src" / "f2ed"
ERRORS = {"Refusal", "ConfigError", "PeerError", "GoneError"}
OF_A_NODE = [
    "deployment/array_header.py",
    "deployment/helped_step.py",
    "deployment/identity.py",
    "deployment/key_memory.py",
    "deployment/layout_pin.py",
    "deployment/masked_metrics.py",
    "deployment/pin.py",
    "deployment/roster/files.py",
    "deployment/roster/steps.py",
    "deployment/roster/terms.py",
    "deployment/round_mark.py",
    "deployment/running_app.py",
    "deployment/state_store.py",
    "deployment/survivor_sets.py",
    "deployment/train_input.py",
    "deployment/training_rules.py",
    "flower/app_calls.py",
    "flower/app_process.py",
    "flower/arrays.py",
    "deployment/agent/client.py",
    "deployment/agent/frames.py",
    "deployment/agent/listener.py",
    "deployment/agent/server.py",
    "deployment/asked.py",
    "deployment/node_step.py",
    "flower/client_mod.py",
    "flower/context.py",
    "flower/handover.py",
    "flower/legacy.py",
    "flower/pinning.py",
    "flower/selftest.py",
    "protocol/aggregation/buffers.py",
    "protocol/aggregation/contribution.py",
    "protocol/dp/budget.py",
]
OF_THE_PROTOCOL = ["primitives/*.py", "quantization/*.py", "dp/*.py", "secagg/**/*.py"]
MEANT_FOR_OTHERS = {
    # The server's, or the simulation's, in a file that both sides use.
    "no roster; give the path",
    "names no test roster",
    "a step of … coordinates for a model of",
    "the step takes",
}


def said(path, kinds):
    """Yield the text of every error of some kinds that a file makes, with … for what is filled in."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds and node.args:
            parts = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
            if parts:  # Else it passes on another error's text.
                yield "…".join(str(part.value) for part in parts)


def strings(path):
    """Yield all that a file can say: its errors, and what it writes into logs and reports."""
    yield from said(path, ERRORS)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "…".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def fragments():
    """Yield what the tables quote."""
    section = PAGE[PAGE.index("## What each refusal means") : PAGE.index("## Threat model")]
    for line in section.splitlines():
        if line.startswith("| ") and not line.startswith("| message"):
            yield from (each.strip() for each in line.split("|")[1].split(";") if each.strip())


def matches(fragment, text):
    """Say whether a text holds a fragment, in which … stands for anything."""
    return re.search(".*".join(map(re.escape, map(str.strip, fragment.split("…")))), text, re.DOTALL) is not None


def test_every_refusal_of_a_client_stands_in_a_table():
    refusals = [text for path in sorted(CODE.glob("protocol/secagg/**/*.py")) for text in said(path, {"Refusal"})]
    refusals += [text for name in OF_A_NODE for text in said(CODE / name, ERRORS)]
    assert len(refusals) > 40
    quoted = [*fragments(), *MEANT_FOR_OTHERS]
    assert [text for text in refusals if not any(matches(each, text) for each in quoted)] == []


def test_nothing_is_quoted_that_nobody_says():
    files = [
        CODE / "core" / "files.py",
        *(CODE / "flower").glob("*.py"),
        *(CODE / "deployment").glob("**/*.py"),
        CODE / "protocol" / "aggregation" / "buffers.py",
        CODE / "protocol" / "aggregation" / "contribution.py",
        CODE / "protocol" / "aggregation" / "step.py",
    ]
    files += [path for pattern in OF_THE_PROTOCOL for path in (CODE / "protocol").glob(pattern)]
    texts = [text for path in files for text in strings(path)]
    quoted = [fragment.removeprefix("takes no part: ") for fragment in (*fragments(), *MEANT_FOR_OTHERS)]
    assert len(quoted) > 40
    assert [words for words in quoted if not any(matches(words, text) for text in texts)] == []


def test_every_setting_of_a_node_is_explained():
    section = PAGE[PAGE.index("## Settings of a node") : PAGE.index("## Settings of the server")]
    settings = {text for text in strings(CODE / "deployment" / "identity.py") if re.fullmatch("f2ed-[a-z-]+", text)}
    assert len(settings) == 10
    assert {name for name in settings if f"| `{name}` |" not in section} == set()


def test_every_setting_of_the_server_is_explained():
    section = PAGE[PAGE.index("## Settings of the server") : PAGE.index("## Operations")]
    settings = set(inspect.signature(F2ed.__init__).parameters) - {"self", "others"}
    assert {name for name in settings if f"`{name}`" not in section} == set()
