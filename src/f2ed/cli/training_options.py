"""The options of `f2ed roster sign` for what the server may ask of training."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from f2ed.deployment.roster import TrainingRules
from f2ed.deployment.rule_text import changed_rules

__all__ = ["TrainingOptions"]


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

    def applied(self, before: TrainingRules) -> TrainingRules:
        """Return the rules to be signed."""
        return changed_rules(
            before,
            settings=self.setting or (),
            run_settings=self.run_setting or (),
            any_setting=self.any_setting,
            any_run_setting=self.any_run_setting,
            messages=self.message,
            layout=self.layout,
            stateful=self.stateful,
        )
