"""The semantic backdoor: real images with a natural feature get a wrong label (Bagdasaryan et al., AISTATS 2020)."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.subpopulation import Scores, Subpopulation

__all__ = ["Semantic"]


class Semantic(Subpopulation, frozen=True, kw_only=True, tag="semantic"):
    """Mislabel the images of the class `source` that share a natural feature; nothing is painted into them.

    The feature is brightness: bold strokes or light clothes (`feature = "bright"`), or the opposite. The original uses
    green cars, or cars with racing stripes, which have to be picked by hand.
    """

    title = "Semantic backdoor"
    family = "backdoor"
    paper = "after Bagdasaryan et al., AISTATS 2020"

    feature: Literal["bright", "dark"] = "bright"

    def scores(self, images: npt.NDArray[np.float64]) -> Scores:
        """Return the mean brightness, or its negative."""
        bright = images.mean(1)
        return np.asarray(bright if self.feature == "bright" else -bright)
