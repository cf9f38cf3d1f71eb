"""The fixtures of commands."""

from tests.cli.running import run  # noqa: F401
