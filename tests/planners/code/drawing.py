"""Random cases that are the same in each run: compilers take them all at once."""

from hypothesis import HealthCheck, Phase, settings


def same_in_each_run(count):
    """Settings with which a function is called with so many random cases."""
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
