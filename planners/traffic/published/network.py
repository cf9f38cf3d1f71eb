"""The least traffic of a network as printed by Liao et al.: layers alone, and pairs of convolutions.

A layer alone moves T = T_I + T_W + 2 T_O by the best of our loop nests, with input that tiles share
read again: every partial result is read and written, the first reading too. Layers without weights,
which the slides do not have, read and write once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cnn2csdf.network import Network
from csdf.outcome import Why
from csdf.stopping import Stop
from planners.traffic.fused.group import FusedGroup
from planners.traffic.fused.stage_groups import groups_of
from planners.traffic.fused.stages import Stage
from planners.traffic.group_traffic import GroupTraffic, pair_fused, stage_alone
from planners.traffic.nest import Halo
from planners.traffic.network_traffic import NetworkSearch
from planners.traffic.published.pair import PairTraffic, least_pair_traffic

PAIR = 2


class PublishedWhy(Why):
    """What is proved of the traffic as printed."""

    LEAST = (
        "no loop nest of a layer with up to two levels of tiles and no even cut of a pair moves "
        "less by the printed formulas; the bound holds for any schedule, with outputs once"
    )


class PublishedSearch(NetworkSearch):
    """Finds the least traffic by the printed formulas, for one buffer after another."""

    proof = PublishedWhy.LEAST

    def __init__(self, network: Network, element_bytes: int | None) -> None:
        super().__init__(network, element_bytes)
        self._pairs: dict[tuple[FusedGroup, int], PairTraffic | None] = {}

    def _alone(self, stage: Stage, buffer_bytes: int, stop: Stop) -> GroupTraffic:
        found = stage_alone(stage, buffer_bytes, stop, halo=Halo.RELOADED)
        if found.layer is None:
            return found
        once = found.layer.convolution.output_elements * stage.element_bytes
        return replace(found, output_bytes=found.output_bytes + once)

    def _starts(self, end: int, longest: int | None, buffer_bytes: int) -> Iterator[int]:
        """The one stage that a pair could start with."""
        is_allowed = longest is None or longest >= PAIR
        if is_allowed and end >= PAIR and self._best_pair(end, buffer_bytes) is not None:
            yield end - PAIR

    def _best_pair(self, end: int, buffer_bytes: int) -> PairTraffic | None:
        """The best cut of the last two stages; None where they are no pair, or no cut fits."""
        group = self._pair(end)
        if group is None:
            return None
        key = group, buffer_bytes
        if key not in self._pairs:
            self._pairs[key] = least_pair_traffic(*key)
        return self._pairs[key]

    def _pair(self, end: int) -> FusedGroup | None:
        """Two convolutions, the second of which alone reads what the first makes."""
        first, second = self.stages[end - PAIR : end]
        if first.convolution is None or second.convolution is None:
            return None
        for group in groups_of(self.stages, end - PAIR, end):
            if group.is_chain and not group.skips and not group.written:
                return group
        return None

    def _fused(
        self, first: int, end: int, buffer_bytes: int, below: int, stop: Stop
    ) -> GroupTraffic | None:
        """The best cut of a pair, if it moves less than so many bytes."""
        stop.look()
        found = self._best_pair(end, buffer_bytes)
        if found is None or found.total >= below:
            return None
        return pair_fused(self.stages[first:end], found)
