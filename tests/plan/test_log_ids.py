"""Names of logs are texts with a kind."""

import pickle

from weft.plan.log_ids import LogId, LogKind


def test_the_name_of_a_log_is_the_same_after_it_was_sent() -> None:
    name = LogId(LogKind.RUNNING, LogId(LogKind.STREAM, "trades"))
    sent = pickle.loads(pickle.dumps(name))
    assert (sent, sent.kind, sent.of) == (name, LogKind.RUNNING, "stream trades")
    assert LogId.parse(str(name)) == name
