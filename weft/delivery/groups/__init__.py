"""Groups of queries while an engine runs: who takes answers from where, and what is evaluated for them."""
