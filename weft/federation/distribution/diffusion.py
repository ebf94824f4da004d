"""How much load must flow between whom, so that everyone has a fair part and as little as possible flows.

Hu and Blake's diffusion: flows are differences of potentials, m[i, j] = λ[i] − λ[j] where that is positive, and the
potentials solve L·λ = b with the Laplacian L of who is linked to whom and b what each has beyond its part. Of all flows
that balance the load these have the least sum of squares.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def flows(
    load: NDArray[np.float64], fair: NDArray[np.float64], linked: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """By pair the load that has to go from the one to the other. Without `linked` all are linked with one another."""
    size = len(load)
    # What is asked for adds up to what is there, whatever the scale of the fair parts.
    excess = load - fair * (load.sum() / fair.sum())
    if linked is None:
        potential = excess / size
    else:
        laplacian = np.diag(linked.sum(axis=1)) - linked.astype(np.float64)
        potential = np.linalg.lstsq(laplacian, excess, rcond=None)[0]
    through = np.maximum(potential[:, None] - potential, 0.0)
    return through if linked is None else np.where(linked, through, 0.0)
