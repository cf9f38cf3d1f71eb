from tests.cli.running import answer, run

__all__ = ["answer", "run"]
