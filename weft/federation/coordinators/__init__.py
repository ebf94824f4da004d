"""Who decides: a tree of coordinators over the providers.

tree.py             clusters of clusters of providers that are near to one another
membership.py       providers that come and go: join, leave, split, merge, a new leader
"""

from weft.federation.coordinators.membership import joined, left, recentred, tree_over
from weft.federation.coordinators.tree import Cluster, clusters, coordinators_above, height, providers_below

__all__ = [
    "Cluster",
    "clusters",
    "coordinators_above",
    "height",
    "joined",
    "left",
    "providers_below",
    "recentred",
    "tree_over",
]
