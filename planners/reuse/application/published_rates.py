"""The network as the published tool counts it; for comparison with its tables only.

A graph with these rates need not be able to run: its rates are those printed in Algorithm 1 of SAMOS
2020, clipped to the input. Three things differ from the row rule of `cnn2csdf.rows`:

    padding      is ignored: the first phase of a window takes as many rows as the kernel has
    stride       a window that skips rows moves by its kernel; what is left comes with the last phase
    parameters   normalisations have none

Source: Minakova and Stefanov, SAMOS 2020, Algorithm 1, and TODAES 28(1), 2022, Table 6.6 of the
thesis.
"""

from __future__ import annotations

from dataclasses import replace

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network
from planners.reuse.application.application import Application


def as_published(application: Application) -> Application:
    """Return the application with the rates and parameters of the published accounting."""
    members = tuple(
        replace(member, network=published_rates(member.network)) for member in application.members
    )
    return replace(application, members=members)


def published_rates(network: Network) -> Network:
    """Return the network whose layers read as printed; shapes stay as they are."""
    return Network(name=network.name, layers=tuple(_layer(layer) for layer in network.layers))


def _layer(layer: Layer) -> Layer:
    epilogue = tuple(one for one in layer.epilogue if not isinstance(one, op.BatchNormalization))
    return replace(layer, operator=_operator(layer.operator), epilogue=epilogue)


def _operator(operator: op.Operator) -> op.Operator:
    match operator:
        case op.BatchNormalization():
            return op.Identity(kind="batch normalization")
        case op.Convolution(window=window) | op.Pooling(window=window):
            return replace(operator, window=_window(window))
    return operator


def _window(window: op.Window) -> op.Window:
    rows, columns = window.extent
    down, across = window.stride
    return replace(window, padding=(0, 0, 0, 0), stride=(min(rows, down), min(columns, across)))
