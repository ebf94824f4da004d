"""The delivery log: what cycles publish, kept on disk for subscribers, edges and brokers."""
