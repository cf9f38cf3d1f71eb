"""`python -m csdf` is the `csdf` command."""

from __future__ import annotations

import sys

from csdf.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
