"""Initial phases in an SDF3 file, as Kiter writes them: `INITIAL;CYCLE` in lists of rates and times."""

from __future__ import annotations

from collections.abc import Mapping

from csdf.errors import StuckStart
from csdf.io import sequences
from csdf.io.sdf3.actors import ActorText, Port, port_elements
from csdf.io.sdf3.document import Sdf3Document
from csdf.model.exact import MalformedText
from csdf.model.graph import Graph
from csdf.model.start import InitialRates, after_start

REMARK = " initial phases (before ';'); the graph is what they leave behind"

End = tuple[ActorText, Port]


def without_initial_phases(
    document: Sdf3Document, graph: Graph, ends: Mapping[str, tuple[End, End]]
) -> Graph:
    """Return the graph that is left when all actors have done with their initial phases.

    ends: of each channel, where it leaves its producer and meets its consumer. A graph without initial
    phases stays as it is; of another REMARK is to be said. Raises StuckStart.
    """
    initial = {
        name: InitialRates(
            production=_rates(document, *source), consumption=_rates(document, *destination)
        )
        for name, (source, destination) in ends.items()
        if source[1].initial or destination[1].initial
    }
    if not initial:
        return graph
    try:
        return after_start(graph, initial)
    except StuckStart as error:
        raise StuckStart(error.circle, f"{document.name}: ") from None


def _rates(document: Sdf3Document, actor: ActorText, port: Port) -> tuple[int, ...]:
    """The tokens that each initial phase of an actor moves through a port."""
    if not port.initial:
        return ()
    try:
        return sequences.parse_rates(port.initial, sequences.sequence_length(port.initial))
    except MalformedText as error:
        where = f"actor {actor.name!r}, {port.label}"
        element = port_elements(actor.element)[port.name]
        raise document.refusal(element, f"{where}: initial rate {error}") from None
