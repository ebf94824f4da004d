"""Windows cut into fragments: where the edges are, how many there are, and what is due when.

residues       edges that repeat for ever, as residue classes; where they meet; which of them are superfluous
slicing        Panes, Pairs and Cutty: from windows to edges
counting       how many edges per tick, exactly
conditioning   … when their common period is too long for anything else
schedule       edges, fragments and due answers, lazily, in the order of time
steps          the same for a window kernel, which counts fragments and knows no clock
meeting        how far apart the clocks of rows of a join may be
containment    which windows of joins, and which schedules of aggregates, contain which
merging        windows that contain two others
"""

from weft.windows.counting import (
    common_edge_rate,
    count_by_bit_set,
    count_edges,
    edge_rate,
    estimated_edge_rate,
    exact_edge_rate,
    rate_by_inclusion_exclusion,
    weaveability,
)
from weft.windows.residues import EdgeSet, ResidueClass, meet, reduced, residue_class
from weft.windows.schedule import (
    Due,
    Fragment,
    answers_after,
    answers_between,
    edges_after,
    edges_between,
    fragment_at,
    fragment_starts,
    fragments_of,
    instance,
    instances_covering,
    instances_ending,
    most_partials,
    oldest_open_start,
)
from weft.windows.slicing import (
    Pair,
    Slicing,
    composite_slide,
    pair,
    partials_per_answer,
    shared_edges,
    slices,
)
from weft.windows.steps import Steps, distinct_ranges, steps_between

__all__ = [
    "Due",
    "EdgeSet",
    "Fragment",
    "Pair",
    "ResidueClass",
    "Slicing",
    "Steps",
    "answers_after",
    "answers_between",
    "common_edge_rate",
    "composite_slide",
    "count_by_bit_set",
    "count_edges",
    "distinct_ranges",
    "edge_rate",
    "edges_after",
    "edges_between",
    "estimated_edge_rate",
    "exact_edge_rate",
    "fragment_at",
    "fragment_starts",
    "fragments_of",
    "instance",
    "instances_covering",
    "instances_ending",
    "meet",
    "most_partials",
    "oldest_open_start",
    "pair",
    "partials_per_answer",
    "rate_by_inclusion_exclusion",
    "reduced",
    "residue_class",
    "shared_edges",
    "slices",
    "steps_between",
    "weaveability",
]
