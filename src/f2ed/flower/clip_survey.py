"""Learn from honest updates which clips to sign, without seeing one of them.

The authority allows the question with `f2ed roster sign --metric` and the text of `SURVEY_METRIC`. On the client, the
evaluating function trains, and answers with sizes in place of the model:

    @app.evaluate()
    def survey(message, context):
        trained = train(message, context).content["arrays"]
        found = {SURVEY: clip_survey(message.content["arrays"], trained)}
        return Message(RecordDict({"metrics": MetricRecord(found)}), reply_to=message)

On the server, once, before the first round:

    print(propose_clips(F2ed(roster=…).measure(grid, initial_arrays), malicious=1))

It prints the options with which the authority signs the clips.
"""

from collections.abc import Sequence

import numpy as np
from flwr.app import ArrayRecord

from f2ed.deployment.clip_survey import (
    SURVEY,
    SURVEY_METRIC,
    ClipProposal,
    propose_clips,
    survey_answers,
)
from f2ed.flower.arrays import update, update_plan
from f2ed.protocol.aggregation import BUFFER_NAMES, Buffers

__all__ = ["SURVEY", "SURVEY_METRIC", "ClipProposal", "clip_survey", "propose_clips"]


def clip_survey(before: ArrayRecord, after: ArrayRecord, *, buffers: Sequence[str] = BUFFER_NAMES) -> list[float]:
    """Return a client's answers about what training changed; `buffers` are patterns for the names of statistics."""
    plan = update_plan(before, Buffers(names=tuple(buffers)), clip_value=1.0)
    change = update(before, after, plan).astype(np.float64)
    trained, others = change[: plan.trained], change[plan.trained :]
    return survey_answers(
        {
            "coordinate": float(np.abs(trained).max(initial=0)),
            "buffer": float(np.abs(others).max(initial=0)),
            "norm": float(np.linalg.norm(trained)),
        }
    )
