"""The stored nodes of the shared plan that ran last.

They are written as they change, all or nothing, and read once, when a project is opened. Streams are not written with
each node that reads them: a node refers to them by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from zlib import crc32

from weft.algebra import Stream, Table
from weft.algebra.codec import dumps, register, register_spelling
from weft.algebra.properties import leaves
from weft.catalog.catalog_errors import CatalogError
from weft.catalog.database import Database
from weft.plan import nodes
from weft.plan.event_time import QueryStart
from weft.plan.facts import StreamFacts
from weft.plan.log_ids import LogId
from weft.plan.network import Computation
from weft.plan.node_ids import NodeId
from weft.plan.shared_plan import SharedPlan
from weft.predicates.clauses import Disjunction, PredicateSet
from weft.predicates.domains import Domain
from weft.predicates.literals import Triple
from weft.predicates.subjects import Order, Polynomial, Sum
from weft.predicates.terms import Term

register(Triple, Disjunction, PredicateSet, Sum, Term, Order, Polynomial, Domain)
register(QueryStart, StreamFacts, Computation, NodeId)
register(
    nodes.Evaluator, nodes.Alternative, nodes.Decision, nodes.Condition, nodes.TreeSpec, nodes.KernelChoice,
    nodes.ScanNode, nodes.FilterNode, nodes.JoinNode, nodes.ReduceNode, nodes.WindowTreeNode, nodes.ProjectNode,
    nodes.GroupNode, nodes.DistinctNode, nodes.SetOperationNode, nodes.SparkSelectNode, nodes.OutputNode,
)  # fmt: skip
register_spelling(LogId, str, LogId.parse)


def document_of(node: nodes.Node) -> str:
    """A node as JSON: equal nodes have equal texts."""
    given: dict[int, str] = {}
    if isinstance(node, nodes.RelationNode):
        given = {id(leaf): leaf.name for leaf in leaves(node.relation) if isinstance(leaf, (Stream, Table))}
    return dumps(node, given)


def digest_of(documents: Iterable[str]) -> str:
    """The digest of a plan, from those of its nodes, in whatever order."""
    total = 0
    for each in documents:
        total ^= int.from_bytes(blake2b(each.encode(), digest_size=16).digest(), "big")
    return f"{total:032x}"


class PlanNodes:
    """The stored plan."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self, sources: Mapping[str, Stream | Table]) -> SharedPlan:
        """Read the plan; `sources` are the streams and tables that are registered."""
        with self._database.snapshot():
            rows = self._database.execute("SELECT id, document, checksum FROM nodes ORDER BY id")
            following = self.next_number
        found = {}
        for id_, document, checksum in rows:
            if crc32(document.encode()) != checksum:
                raise CatalogError(f"node {id_} of the shared plan is not as it was written")
            found[id_] = self._database.decode(f"node {id_}", document, sources.__getitem__)
        trees = [each for each in found.values() if isinstance(each, nodes.WindowTreeNode) and each.on_executors]
        return SharedPlan(
            nodes=found,
            next_number=following,
            joins_on_executors=any(
                isinstance(each, nodes.NetworkNode) and each.on_executors for each in found.values()
            ),
            windows_on_executors=frozenset((each.log.of, each.spec.keys) for each in trees),
        )

    @property
    def made_by(self) -> str:
        """The optimizer that has made the plan; empty if there is none yet."""
        ((made_by,),) = self._database.execute("SELECT made_by FROM shared_plan")
        return str(made_by)

    @property
    def next_number(self) -> int:
        """The number that the next node of the network gets. They are never used twice."""
        ((number,),) = self._database.execute("SELECT next_number FROM shared_plan")
        return int(number)

    @property
    def digest(self) -> str:
        """The digest of the plan."""
        ((digest,),) = self._database.execute("SELECT digest FROM shared_plan")
        return str(digest)

    def save(self, made: Iterable[nodes.Node], dropped: Iterable[str], next_number: int, made_by: str) -> str:
        """Write down what has changed, and the optimizer that has changed it; the digest of the plan after that."""
        with self._database.change():
            digest = int(self.digest or "0", 16)
            changed = {each.id: document_of(each) for each in made}
            for id_ in {*dropped, *changed}:
                for (document,) in self._database.execute("SELECT document FROM nodes WHERE id = ?", (id_,)):
                    digest ^= int(digest_of([document]), 16)
                self._database.execute("DELETE FROM nodes WHERE id = ?", (id_,))
            for id_, document in changed.items():
                digest ^= int(digest_of([document]), 16)
                self._database.execute(
                    "INSERT INTO nodes (id, document, checksum) VALUES (?, ?, ?)",
                    (id_, document, crc32(document.encode())),
                )
            text = f"{digest:032x}"
            self._database.execute(
                "UPDATE shared_plan SET next_number = ?, made_by = ?, digest = ?", (next_number, made_by, text)
            )
        return text

    def clear(self, next_number: int) -> None:
        """Drop all nodes, and go on with a number: those of the network are not used again."""
        with self._database.change():
            self._database.execute("DELETE FROM nodes")
            self._database.execute("DELETE FROM shared_plan")
            self._database.execute(
                "INSERT INTO shared_plan (next_number, made_by, digest) VALUES (?, '', '')", (next_number,)
            )
