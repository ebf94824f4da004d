"""weft: many continuous queries, one Spark pipeline.

loom = weft.open("project")
loom.execute(open("app.sql").read())
"""

from weft.loom import Loom, Outcome
from weft.sql.problems import SqlError

__version__ = "0.1.0"

#: Opens the project in a directory.
open = Loom.open

__all__ = ["Loom", "Outcome", "SqlError", "open"]
