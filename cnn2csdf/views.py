"""Tables and pictures with which notebooks show values of this package."""

from __future__ import annotations

from cnn2csdf.execution.compare import Verification
from cnn2csdf.network import Network
from csdf.errors import counted
from csdf.model.shown import html
from csdf.notebook import facts, table


@html.register
def _network(value: Network) -> str:
    """Return the layers as a table."""
    return table(f"{value.name}: {counted(len(value.layers), 'layer')}", value.to_records())


@html.register
def _verification(value: Verification) -> str:
    """Return how far the run was from the reference as a table."""
    return facts("by parts against the whole", value.to_json())
