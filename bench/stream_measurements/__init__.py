"""The parts of the benchmark of many streams."""
