"""The tree of subcommands."""

from cyclopts import App

import f2ed

__all__ = ["app"]

app = App(
    name="f2ed",
    version=f2ed.__version__,
    help="Federated learning protected in both directions: secure aggregation in shards, a robust mean over them.",
)

app.command("f2ed.cli.plan:plan")
app.command("f2ed.cli.data:data")
app.command("f2ed.cli.run:run")
app.command("f2ed.cli.list:show", name="list")
app.command("f2ed.cli.report:report")
app.command("f2ed.cli.watch:watch")
app.command("f2ed.cli.figures:figures")
app.command("f2ed.cli.reproduce:reproduce")
app.command("f2ed.cli.export:export")
app.command("f2ed.cli.records:app", name="records")
app.command("f2ed.cli.up:up")
app.command("f2ed.cli.roster:roster")
app.command("f2ed.cli.certs:certs")
app.command("f2ed.cli.audit:command", name="audit")
