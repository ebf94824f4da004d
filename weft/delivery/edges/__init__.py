"""Edges: processes that take rows once over a link and serve many users, and what they say to each other."""
