"""Log of searches: nodes, bounds and cuts, by loggers `csdf.*` of the standard library.

`logging` is not imported here, because its import takes a tenth of the start-up time of a command. If
no other module has imported it, no handler exists, and messages are discarded. The library configures
no handler; the options `-v` and `-vv` of a command do.
"""

from __future__ import annotations

import sys


class Log:
    """A named logger; messages are formatted as by `logging`, and only if a handler receives them."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, message: str, *values: object) -> None:
        """Log an answer of a search, or its end."""
        logging = sys.modules.get("logging")
        if logging is not None:
            logging.getLogger(self._name).info(message, *values)

    def debug(self, message: str, *values: object) -> None:
        """Log a step of a search."""
        logging = sys.modules.get("logging")
        if logging is not None:
            logging.getLogger(self._name).debug(message, *values)

    @property
    def hears_steps(self) -> bool:
        """Whether the logger is enabled for steps (level DEBUG)."""
        logging = sys.modules.get("logging")
        return logging is not None and bool(
            logging.getLogger(self._name).isEnabledFor(logging.DEBUG)
        )
