"""The edge-case backdoor: real images from the tail of the data get a wrong label (Wang et al., NeurIPS 2020)."""

import numpy as np
import numpy.typing as npt

from f2ed.attacks._common.subpopulation import Scores, Subpopulation

__all__ = ["EdgeCase"]


class EdgeCase(Subpopulation, frozen=True, kw_only=True, tag="edge-case"):
    """Mislabel the images of the class `source` that are least like the others, which honest clients hardly correct.

    The tail is the share `tail` of images farthest, pixel by pixel, from the mean of their class. The original takes
    its tail from other data (handwriting from another country, airplanes of another airline).
    """

    title = "Edge-case backdoor"
    family = "backdoor"
    paper = "after Wang et al., NeurIPS 2020"

    def scores(self, images: npt.NDArray[np.float64]) -> Scores:
        """Return the distance from the mean."""
        return np.asarray(np.linalg.norm(images - images.mean(0), axis=1)) if len(images) else np.zeros(0)
