"""The command line. One module per command; `output` has what they share.

Exit codes: 0 all is well, 1 the SQL has problems, 2 the command could not be carried out.
"""

from weft.cli.app import main

__all__ = ["main"]
