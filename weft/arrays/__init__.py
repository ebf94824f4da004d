"""Columns as Arrow and NumPy arrays, each conversion written once. Nothing here knows Spark, plans or state.

arrow_types.py  the Arrow type of each SQL type, INTERVAL inside and outside of the engine, tables as bytes
ordinals.py     values as integers that compare as SQL does, and the intervals that constants divide them into
row_keys.py     rows as bytes, rows numbered by them, keys as hashes

Keys become numbers in three ways that do different things. `KeyHashes` needs no memory: two processes give the same key
the same number, and two keys may share one, so its users compare the keys again. `RowNumbers` numbers whole rows
from 0 on, costs what is new, and can forget rows. `GroupKeys` of the windows (`stages/windows/rollup.py`) numbers keys
from 0 on and keeps them in Arrow arrays, a tenth of the memory, because it never forgets one.
"""
