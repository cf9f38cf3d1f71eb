"""How long the exact search for the least traffic takes for each distinct layer of a network.

Run `python tests/benchmarks/bench_traffic.py [NAME [KILOBYTES ...]]` (resnet34, 32 512 4096): one line
a layer and buffer, elements of 4 bytes: processor seconds, bytes moved, how often the best lower bound
that is, how many times fewer choices were looked at than there are nests, and the same of the network.
The first search loads the compiler, and compiles where nothing is cached.
"""

import sys
from dataclasses import replace
from time import process_time

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from planners.traffic.convolution import convolution_of, is_loop_nest
from planners.traffic.nest import lengths
from planners.traffic.one_layer import minimum_traffic

ELEMENT_BYTES = 4


def main(name="resnet34", *kilobytes):
    network = simplified(Model(network=from_catalogue(name))).network
    found = [one for one in network.layers if is_loop_nest(one)]
    layers = [convolution_of(network, one) for one in found]
    distinct = list({replace(layer, name=""): layer for layer in reversed(layers)}.values())[::-1]
    for room in map(int, kilobytes or (32, 512, 4096)):
        print(f"{room} KB{'seconds':>36}{'bytes':>12}{'x bound':>9}{'pruned':>10}{'of nests':>10}")
        total, spent = {}, 0.0
        for layer in distinct:
            begin = process_time()
            found = minimum_traffic(layer, buffer_bytes=room * 1024, element_bytes=ELEMENT_BYTES)
            seconds = process_time() - begin
            spent += seconds
            total[replace(layer, name="")] = found
            ratio = found.total_bytes / found.lower_bound_bytes
            sizes = "x".join(map(str, lengths(layer)))
            print(
                f"{layer.name:<20}{sizes:>18}{seconds:>8.3f}{found.total_bytes:>12}{ratio:>9.3f}"
                f"{found.space / found.evaluated:>10.1e}{found.space:>10.1e}",
                flush=True,
            )
        every = [total[replace(layer, name="")] for layer in layers]
        moved, least = (sum(getattr(one, part) for one in every) for part in PARTS)
        print(f"{name:<38}{spent:>8.3f}{moved:>12}{moved / least:>9.3f}  {len(layers)} layers")


PARTS = ("total_bytes", "lower_bound_bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
