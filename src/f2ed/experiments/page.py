"""One small page about a grid of runs: what came of it in words, a table and the curves. It needs nothing else."""

from collections.abc import Sequence
from html import escape

from f2ed.experiments.curves import chart
from f2ed.records import RunLog

__all__ = ["page"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } .about { opacity: .75; margin-top: .2rem; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .25rem .9rem .25rem 0;
border-bottom: 1px solid var(--line); } td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1.5rem; }
figure { margin: 0; } figcaption { font-weight: 600; } svg text { font-size: 12px; fill: currentColor; }
.grid { stroke: var(--line); } .legend { list-style: none; padding: 0; margin: 0; font-size: .9rem; }
footer { margin-top: 2rem; opacity: .7; font-size: .85rem; }
"""


def page(title: str, logs: Sequence[RunLog], *, about: str = "", verdict: Sequence[str] = ()) -> str:
    """Return the page as HTML."""
    logs = [log for log in logs if log.rounds]
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="about">{escape(about)}</p>' if about else "",
        "<h2>What came of it</h2><ul>",
        *(f"<li>{escape(sentence)}</li>" for sentence in verdict),
        "</ul><h2>Where it ended</h2>",
        _table(logs),
        "<h2>How it went</h2>",
        '<div class="charts">',
        *_charts(logs),
        "</div>",
        _footer(logs),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _label(log: RunLog, without: str = "") -> str:
    return ", ".join(value for name, value in log.header.arm.items() if name != without) or log.header.name


def _table(logs: Sequence[RunLog]) -> str:
    rows = []
    for log in logs:
        last = log.rounds[-1]
        believed = last.believed_attackers if log.header.attacked else None
        cells = (last.accuracy, last.success, believed)
        numbers = "".join(f'<td class="number">{"" if cell is None else f"{100 * cell:.1f} %"}</td>' for cell in cells)
        rows.append(f"<tr><td>{escape(_label(log))}</td>{numbers}<td>{escape(log.header.mode)}</td></tr>")
    heads = "".join(
        f'<th class="number">{head}</th>' for head in ("accuracy", "attack success", "weight on spoilt shards")
    )
    return f"<table><thead><tr><th>run</th>{heads}<th>secrecy</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _charts(logs: Sequence[RunLog]) -> list[str]:
    """Draw accuracy for each attack, and the attack's success where it has a target."""
    charts = []
    for attack in dict.fromkeys(log.header.arm.get("attack", "") for log in logs):
        mine = [log for log in logs if log.header.arm.get("attack", "") == attack]
        rounds = max(len(log.rounds) for log in mine)
        under = {"": "", "none": " without an attack"}.get(attack, f" under {attack}")
        accuracy = {_label(log, "attack"): [record.accuracy for record in log.rounds] for log in mine}
        charts.append(chart(f"Accuracy{under}", accuracy, rounds))
        success = {
            _label(log, "attack"): [record.success or 0.0 for record in log.rounds]
            for log in mine
            if log.rounds[-1].success is not None
        }
        if success:
            charts.append(chart(f"Attack success{under}", success, rounds))
    return charts


def _footer(logs: Sequence[RunLog]) -> str:
    if not logs:
        return "<footer>No rounds yet.</footer>"
    first = logs[0].header
    versions = ", ".join(f"{name} {version}" for name, version in first.versions.items())
    data = first.settings.get("data", {}).get("kind", "?")
    said = (
        f"{data}, {first.clients} clients, {len(first.malicious)} of them malicious, {len(first.shards)} rows for the "
        f"estimator; {first.verdict}. On {first.device}; {versions}."
    )
    return f"<footer><p>{escape(said)}</p></footer>"
