"""The options of `f2ed roster sign` for what the server may ask of training."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from f2ed.cli.app_options import check_unchanged
from f2ed.deployment.roster import Risk, Roster, revised
from f2ed.deployment.rule_text import changed_rules, rule_lines

__all__ = ["TrainingOptions", "training_lines"]


@Parameter(name="*")
@dataclass(frozen=True)
class TrainingOptions:
    """What changes in the rules for training; whatever is None stays as it was signed before."""

    setting: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="A setting that the server may send, as in lr=float:0.001..0.5, epochs=int:1,2,5 or name=str; lr= "
            "removes its rule. Repeat it for several. Others are refused.",
        ),
    ] = None
    run_setting: Annotated[
        list[str] | None,
        Parameter(negative="", help="The same for the run's configuration."),
    ] = None
    any_setting: Annotated[bool | None, Parameter(help="Allow settings without a rule.")] = None
    any_run_setting: Annotated[bool | None, Parameter(help="Allow run settings without a rule.")] = None
    message: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="A type of message that nodes answer in the clear, such as evaluate (with --accept evaluate), or "
            "train for none; repeat it for several.",
        ),
    ] = None
    layout: Annotated[
        str | None,
        Parameter(
            help="Layout of the model, as the server logs it at its start; at first empty, so that a node pins the "
            "first that it trains."
        ),
    ] = None
    stateful: Annotated[
        bool | None, Parameter(help="Let training keep context.state between rounds (with --accept stateful).")
    ] = None

    metric: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="A metric that clients send in sums under masks, with its ends, as in loss=0..10, or a list of so "
            "many numbers, as in ages=0..1000x8; loss= removes it. Repeat it for several.",
        ),
    ] = None

    def applied(self, draft: Roster, accepted: Iterable[Risk]) -> Roster:
        """Return the draft with the rules to be signed, and the risks that they need."""
        if self == TrainingOptions():
            return draft
        check_unchanged(draft)
        rules = changed_rules(
            draft.training,
            settings=self.setting or (),
            run_settings=self.run_setting or (),
            any_setting=self.any_setting,
            any_run_setting=self.any_run_setting,
            messages=self.message,
            layout=self.layout,
            stateful=self.stateful,
            metrics=self.metric or (),
        )
        return revised(draft, training=rules, accepted=tuple(dict.fromkeys(accepted)))


def training_lines(before: Roster, after: Roster) -> Iterator[str]:
    """Yield a line for each rule that a signing adds or removes."""
    old = list(rule_lines(before.training)) if before.serial else []
    new = list(rule_lines(after.training))
    yield from (f"  {line}" for line in new if line not in old)
    yield from (f"  no more: {line}" for line in old if line not in new)
