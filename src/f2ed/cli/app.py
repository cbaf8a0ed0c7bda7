"""The tree of subcommands, each loaded only when it is called."""

import ast
from importlib.resources import files

from cyclopts import App, Group

import f2ed

__all__ = ["GROUPS", "app"]

GROUPS = {
    "Research": ("run", "search", "list", "data", "reproduce", "repair"),
    "Results": ("report", "watch", "figures", "export", "records"),
    "Decide": ("plan", "audit"),
    "Deploy": ("up", "roster", "app", "certs", "kit", "node", "helper", "executor", "operator", "log"),
    "Operate": ("doctor", "health", "metrics"),
}
"""The commands as `f2ed --help` shows them, each in the module of its name."""

_MODULES = {"app": "app_hash"}
"""The exceptions: `f2ed.cli.app` is this module."""

_FUNCTIONS = {"list": "show", "audit": "command", "records": "app"}
"""The others are called like their command."""


def _help(module: str, name: str) -> str:
    """Return the help text of a command from its source, without importing what it needs."""
    tree = ast.parse(files("f2ed.cli").joinpath(f"{module}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node) or ""
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.targets[0]) == name:
            return str(ast.literal_eval(next(each.value for each in node.value.keywords if each.arg == "help")))
    raise LookupError(f"f2ed/cli/{module}.py has no {name}")


app = App(
    name="f2ed",
    version=f2ed.__version__,
    help="Federated learning protected in both directions: secure aggregation in shards, a robust mean over them.",
)

for position, (title, names) in enumerate(GROUPS.items()):
    group = Group(title, sort_key=position)
    for number, each in enumerate(names):
        function = _FUNCTIONS.get(each, each)
        module = _MODULES.get(each, each)
        text = _help(module, function)
        app.command(f"f2ed.cli.{module}:{function}", name=each, help=text, group=group, sort_key=number)
