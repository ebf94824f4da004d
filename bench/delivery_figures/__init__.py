"""The experiments on groups of queries: 63 streams, an overlay of a thousand nodes, ten thousand queries."""
