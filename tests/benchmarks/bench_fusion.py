"""How long the exact search over groups, grids and ways takes for each network of the catalogue.

Run `python tests/benchmarks/bench_fusion.py [NAME ...]`: one line each, seconds of the processor for
the search alone.
"""

import sys
from time import process_time

from cnn2csdf.catalogue.networks import CATALOGUE
from cnn2csdf.platforms import PLATFORMS
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from planners.fusion.groups import Terms
from planners.fusion.search import front, options
from planners.memory.answer import ScratchCount
from planners.memory.order import chain_of

TERMS = Terms(platform=PLATFORMS["cortex-m7"], scratch=ScratchCount.IM2COL)


def main(names):
    print(f"{'network':<20}{'sections':>9}{'options':>9}{'points':>8}{'seconds':>9}")
    for name in names:
        chain = chain_of(simplified(Model(network=CATALOGUE[name]())).network)
        begin = process_time()
        found = list(options(chain, TERMS))
        points = front(found, chain.sections)
        seconds = process_time() - begin
        print(
            f"{name:<20}{chain.sections:>9}{len(found):>9}{len(points):>8}{seconds:>9.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:] or CATALOGUE)
