"""The delivery log: what cycles publish, kept on disk for those who take it."""
