"""A device fitted to printed speeds: one network, two rows (whole, all by rows), two unknowns.

The unknowns are operations a second and the time to start a phase; bytes cost nothing. It is a fit, of
that network: its two rows come out exactly, and only other rows say how good it is.
"""

from fractions import Fraction

from cnn2csdf.platforms import Platform
from planners.reuse.application import Application, ApplicationNetwork, single_partition
from planners.reuse.evaluation import Costs, Evaluator

FREE = Fraction(10**18)  # bytes or operations a second that cost nothing


def fitted_platform(member: ApplicationNetwork, whole: float, rows: float) -> Platform:
    """Return the device on which a network alone has these frames a second, whole and by rows.

    member: with the rates of the accounting in which phases count; its partitions take turns.
    """
    alone = single_partition(member.network, member.outside)
    application = Application(name=member.name, members=(alone,))
    computing = Platform(
        operations_per_second=Fraction(1), bytes_per_second=FREE, launch=Fraction()
    )
    starting = Platform(operations_per_second=FREE, bytes_per_second=FREE, launch=Fraction(1))
    ((_, work), _), ((_, few), (_, many)) = (
        [
            Evaluator(application, Costs(platform=one)).evaluate((gene,) * len(alone.layers))
            for gene in (None, 1)
        ]
        for one in (computing, starting)
    )
    printed = [1 / Fraction(str(speed)) for speed in (whole, rows)]
    launch = (printed[1] - printed[0]) / (many - few)
    return Platform(
        operations_per_second=work / (printed[0] - launch * few),
        bytes_per_second=FREE,
        launch=launch,
    )
