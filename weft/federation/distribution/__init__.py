"""Which provider runs which query: decisions, from a topology and the conditions of queries up to the coordinator."""
