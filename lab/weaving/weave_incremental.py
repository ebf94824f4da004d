"""Incremental weaving: queries come and go, and the plan follows without starting over.

A new query joins the group where it saves most, or gets one of its own; a deleted one leaves its group, whose edges are
counted anew. Both look at one pair for each group. Every such step is a little worse than weaving all queries again
would be, and the steps add up, so the plan's cost is compared with what a plan from scratch would cost:

    deviation  =  cost of the running plan / estimated cost of a plan from scratch  −  1

Above the tolerance all is woven again, in the background if there is an executor, and the cheaper plan is taken. How a
plan from scratch is estimated without making one:

    FLOOR    what the last one cost. More queries do not make the best plan cheaper, and a query that left cannot have
             saved more than it costs alone; so, as far as plans from scratch are the best, the deviation is at most
             what is tested. If costs grow with queries, a tolerance ε means one rebuild each time they have grown by ε.
    SLOPE    the line through the last two plans from scratch, by number of queries, as Guirguis has it, but not above
             costs in proportion to the number: fewer rebuilds, and where the curve bends a deviation that is seen too
             late.

A rebuild leaves a dendrogram behind, which has a plan for every rate: `plan_at` cuts it and lets in who came since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Executor, Future
from enum import Enum
from fractions import Fraction

from lab.weaving.costings import Costing, by_overlap
from lab.weaving.fabric import Fabric
from lab.weaving.plans import Levels, Weaving, WovenPlan, collapse, tree_cost, weave
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq, Counted


class Estimate(Enum):
    """How the cost of a plan from scratch is estimated."""

    FLOOR = "floor"
    SLOPE = "slope"


class Weaver:
    """A woven plan that queries are added to and deleted from.

    >>> weaver = Weaver([Window(16, 4), Window(10, 5)], rate=Fraction(6, 5))
    >>> weaver.add(Acq(Window(8, 4)))
    >>> float(weaver.cost), weaver.rebuilds
    (4.4, 1)
    >>> weaver = Weaver([Window(16, 4), Window(10, 5)], rate=Fraction(6, 5), tolerance=Fraction(1, 50))
    >>> weaver.add(Acq(Window(8, 4)))
    >>> float(weaver.cost), weaver.rebuilds
    (4.3, 2)
    """

    def __init__(
        self,
        queries: Iterable[Acq | Window] | Counted = (),
        *,
        rate: Fraction | int,
        levels: Levels = Levels.TWO,
        costing: Costing | None = None,
        tolerance: Fraction | None = Fraction(1, 4),
        estimate: Estimate = Estimate.FLOOR,
        executor: Executor | None = None,
    ) -> None:
        """`tolerance` None never weaves again, 0 does so every time. `executor` weaves in the background."""
        self.costing = costing or by_overlap()
        self.levels = levels
        self.tolerance = tolerance
        self.rebuilds = 0
        """How often all queries were woven from scratch."""

        self.curve: list[tuple[int, Fraction]] = []
        """Number of queries and cost of every plan from scratch, since the rate last changed."""

        self._rate = Fraction(rate)
        self._estimate = estimate
        self._executor = executor
        self._running: Future[Weaving] | None = None
        self._submitted: Counter[Acq] = Counter()
        self._woven_of: Counter[Acq] = Counter()
        self._weaving: Weaving | None = None
        self._floor = Fraction(0)
        self._counted = 0
        self._queries: Counter[Acq] = Counter(collapse(queries))
        self._fabric = Fabric(self.costing)
        if self._queries:
            self._adopt(weave(self._queries, self.costing), Counter(self._queries))

    @property
    def rate(self) -> Fraction:
        return self._rate

    @property
    def number_of_queries(self) -> int:
        return self._queries.total()

    @property
    def cost(self) -> Fraction:
        """What the running plan costs per tick."""
        return self._fabric.cost(self._rate, self.levels)

    @property
    def plan(self) -> WovenPlan:
        """The running plan."""
        return self._fabric.plan(self._rate, self.levels)

    @property
    def comparisons(self) -> int:
        """How many pairs of trees were weighed so far, rebuilds included."""
        return self._counted + self._fabric.comparisons

    @property
    def deviation(self) -> Fraction:
        """By how much the running plan is estimated to be dearer than one from scratch."""
        estimated = self._estimated()
        return self.cost / estimated - 1 if estimated > 0 else Fraction(0)

    def add(self, query: Acq) -> None:
        """Lets a query in; weaves again if the plan deviates too much."""
        self.settle(wait=False)
        self._queries[query] += 1
        self._fabric.insert(query, 1, self._rate, self.levels)
        self._weave_again_if_needed()

    def delete(self, query: Acq) -> None:
        """Lets a query go; weaves again if the plan deviates too much."""
        if not self._queries[query]:
            raise ValueError(f"{query} is not in the plan")
        self.settle(wait=False)
        self._queries -= Counter({query: 1})
        self._fabric.remove(query, 1, self._rate, self.levels)
        self._floor = max(Fraction(0), self._floor - self._alone(query))
        if self._queries:
            self._weave_again_if_needed()
        else:
            self.curve.clear()

    def change_rate(self, rate: Fraction | int) -> None:
        """Takes the plan for another rate, from the dendrogram that is there, if it is the cheaper one."""
        self.settle(wait=True)
        self._rate = Fraction(rate)
        if self._weaving is None or not self._queries:
            return
        fabric = self._fabric_at(self._rate)
        if fabric.cost(self._rate, self.levels) < self._fabric.cost(self._rate, self.levels):
            self._replace(fabric)
        # What plans cost at another rate says nothing about this one.
        cost = self._weaving.plan(self._rate, self.levels).cost
        self.curve = [(self._woven_of.total(), cost)]
        gone = self._woven_of - self._queries
        self._floor = max(Fraction(0), cost - sum(count * self._alone(query) for query, count in gone.items()))
        self._weave_again_if_needed()

    def plan_at(self, rate: Fraction | int) -> WovenPlan:
        """The plan to take if rows came at this rate: no weaving, only a cut and who came since."""
        return self._fabric_at(Fraction(rate)).plan(Fraction(rate), self.levels)

    def settle(self, *, wait: bool = True) -> None:
        """Takes over what was woven in the background, if it is done, or when it is."""
        if self._running is not None and (wait or self._running.done()):
            weaving, self._running = self._running.result(), None
            self._adopt(weaving, self._submitted)

    def _weave_again_if_needed(self) -> None:
        if self.tolerance is None or self._running is not None:
            return
        if self.tolerance > 0 and self.curve and self.deviation <= self.tolerance:
            return
        snapshot = Counter(self._queries)
        if self._executor is None:
            self._adopt(weave(snapshot, self.costing), snapshot)
        else:
            self._submitted = snapshot
            self._running = self._executor.submit(weave, snapshot, self.costing)

    def _adopt(self, weaving: Weaving, woven_of: Counter[Acq]) -> None:
        """Takes over a dendrogram: its plan, with those let in who came since and those let go who left."""
        self.rebuilds += 1
        self._counted += weaving.comparisons
        self._weaving, self._woven_of = weaving, woven_of
        scratch = weaving.plan(self._rate, self.levels)
        self.curve.append((woven_of.total(), scratch.cost))
        gone = woven_of - self._queries
        self._floor = scratch.cost - sum(count * self._alone(query) for query, count in gone.items())
        fabric = self._caught_up(scratch)
        if not self._fabric.is_empty and self._fabric.cost(self._rate, self.levels) < fabric.cost(
            self._rate, self.levels
        ):
            self._counted += fabric.comparisons
        else:
            self._replace(fabric)

    def _replace(self, fabric: Fabric) -> None:
        self._counted += self._fabric.comparisons
        self._fabric = fabric

    def _fabric_at(self, rate: Fraction) -> Fabric:
        if self._weaving is None:
            return self._fabric
        return self._caught_up(self._weaving.plan(rate, self.levels))

    def _caught_up(self, plan: WovenPlan) -> Fabric:
        fabric = Fabric(self.costing, plan.groups)
        for query, count in (self._queries - self._woven_of).items():
            fabric.insert(query, count, plan.rate, self.levels)
        for query, count in (self._woven_of - self._queries).items():
            fabric.remove(query, count, plan.rate, self.levels)
        return fabric

    def _estimated(self) -> Fraction:
        """What a plan from scratch would cost now, or at least."""
        if self._estimate is Estimate.FLOOR or len(self.curve) < 2 or self.curve[-1][0] == self.curve[-2][0]:
            return self._floor
        (n1, c1), (n2, c2) = self.curve[-2:]
        line = c2 + (c2 - c1) / (n2 - n1) * (self.number_of_queries - n2)
        return max(min(line, c2 * self.number_of_queries / n2), self._rate * self.costing.row)

    def _alone(self, query: Acq) -> Fraction:
        return self._rate * self.costing.row + tree_cost({query: 1}, self.costing).final
