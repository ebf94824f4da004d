"""Names of logs are texts with a kind."""

import pickle

from weft.plan.log_ids import LogId, LogKind


def test_the_name_of_a_log_is_the_same_after_it_was_sent() -> None:
    name = LogId.running(LogId.stream("trades"))
    sent = pickle.loads(pickle.dumps(name))
    assert (sent, sent.kind, sent.of) == (name, LogKind.RUNNING, "stream trades")
    assert LogId.parse(str(name)) == name
