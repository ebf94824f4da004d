"""The parts of the endurance benchmark: its streams and queries, the process that is watched, and the pictures."""
