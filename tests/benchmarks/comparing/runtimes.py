"""Runtimes with packages for Python: the outputs of TFLite files, and the time of a frame here."""

from time import process_time_ns
from typing import NamedTuple

from cnn2csdf.readers.tflite.model_file import graphs_of

CALLS = 20  # of a frame, of which the shortest counts


class Runtime(NamedTuple):
    """run: sets the inputs, invokes, and returns copies of the outputs. inputs: their details."""

    run: object
    inputs: tuple


def tflite_micro(path):
    """TensorFlow Lite Micro with its reference kernels, by the package tflite-micro."""
    from tflite_micro import runtime

    graph = graphs_of(path.read_bytes())[0]
    other = runtime.Interpreter.from_file(str(path))

    def run(arrays):
        for place, array in enumerate(arrays):
            other.set_input(array, place)
        other.invoke()
        return [other.get_output(place).copy() for place in range(len(graph.outputs))]

    inputs = tuple(other.get_input_details(place) for place in range(len(graph.inputs)))
    return Runtime(run, inputs)


def xnnpack(path):
    """XNNPACK on one thread, by the package ai-edge-litert."""
    from ai_edge_litert.interpreter import Interpreter

    other = Interpreter(model_path=str(path), num_threads=1)
    other.allocate_tensors()
    inputs = other.get_input_details()

    def run(arrays):
        for one, array in zip(inputs, arrays, strict=True):
            other.set_tensor(one["index"], array)
        other.invoke()
        return [other.get_tensor(one["index"]) for one in other.get_output_details()]

    return Runtime(run, tuple(inputs))


def least_time(runtime, arrays):
    """The least processor time of a frame, in milliseconds."""
    best = float("inf")
    for _ in range(CALLS):
        before = process_time_ns()
        runtime.run(arrays)
        best = min(best, (process_time_ns() - before) / 1e6)
    return best
