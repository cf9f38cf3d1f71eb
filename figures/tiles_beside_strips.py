"""Whether tiles would ever beat lines and strips: tiles added to the search of `csdf fit`, measured.

A tile is a rectangle of a result; its layers work one after the other on what the rectangle needs,
and neighbours compute again what they share, along rows and along columns (MAFAT, `csdf plan
fusion`). An upright strip is a strip turned by a quarter: some columns of the result, along the rows.
Neither is in the space of `csdf fit`. Here both are groups of its search, counted below what they
take: a tile what a layer of it reads and writes, an upright strip the rows that are read back. The
result of tiles lies over dead rows of the input as that of strips does; nothing is staged. Run
`python -m figures.tiles_beside_strips`: writes the .md.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cnn2csdf.catalogue.networks import CATALOGUE
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from figures.fit_networks import Subject, network_of
from figures.msf_cnn import MODELS
from figures.msf_cnn import SUBJECTS as CHAINS
from planners.memory.labels import PlanFront
from planners.memory.line_buffers import Keeping, kept_places, least_lead
from planners.memory.moves import GroupMove, GroupMoves, JoinedMoves
from planners.memory.order import TopologicalOrder, topological_order
from planners.memory.partitions import PARTS
from planners.memory.placed_chains import Candidate
from planners.memory.search import MinimumMacsMoves, RecomputingMoves
from planners.memory.stages import StageTable
from planners.plan.firing import StageFirings
from planners.plan.plan import Stage
from planners.plan.regions import COLUMNS, ROWS, Needs, bands, even_ends

SIZES = (1, 2, 4, 8, 16)  # rows and columns of a tile, beside all of them
ANY = 10**12  # bytes
LABELS = 12  # at a place, with tiles and without
MOST_LAYERS = 10  # of a group of tiles, as many as a stage may have
HEADER = (
    *("network", "ends", "groups of tiles", "points of the front"),
    *("improved by tiles", "most saved"),
)

PREFACE = """# Tiles beside lines and strips

Made by `python -m figures.tiles_beside_strips`. Tiles that compute their borders again along both
axes (MAFAT, `csdf plan fusion`), and upright strips, are no ways of `csdf fit`. Here they are: every
run of up to ten layers between two whole tensors may work by tiles of 1, 2, 4, 8, 16 or all rows and
columns of its result, in one search with whole layers, lines and strips, channels in parts, gates
twice. int8, 12 labels at a place in both searches, within the bytes that lines need. A tile takes
what one of its layers reads and writes, an upright strip the rows that are read back; neither stages
anything, so both are counted below what they take. Tiles that keep their borders are lines in larger
steps: they hold the rows of lines, and the tile. A point is improved where no plan without tiles has
its bytes at its work.
"""


class Tiles:
    """The groups of tiles and of upright strips between two cuts."""

    def __init__(self, moves: GroupMoves) -> None:
        self._moves, self._table, self._layer_order = moves, moves.table, moves.layer_order
        self._needs = Needs(moves.table.network)
        self._known: dict[int, dict[int, list[Candidate]]] = {}
        self.count = 0

    def behind(self, begin: int) -> dict[int, list[Candidate]]:
        """The groups behind a cut, by their end."""
        if begin not in self._known:
            found: dict[int, list[Candidate]] = defaultdict(list)
            for end in range(begin + 1, len(self._layer_order.separators)):
                first, last = (
                    self._layer_order.separators[begin] + 1,
                    self._layer_order.separators[end] + 1,
                )
                layers = self._layer_order.layers[first:last]
                if len(layers) > MOST_LAYERS:
                    break
                if len(layers) > 1 and self._can_be_tiled(layers):
                    found[end] = list(self._groups(begin, end, layers))
                    self.count += len(found[end])
            self._known[begin] = dict(found)
        return self._known[begin]

    def _can_be_tiled(self, layers: Sequence[str]) -> bool:
        results = self._layer_order.results & set(layers[:-1])
        return not results and self._table.can_be_stage(layers)

    def _groups(self, begin: int, end: int, layers: tuple[str, ...]) -> Iterator[Candidate]:
        network, whole = self._table.network, self._moves.whole_bytes
        made = [network.layer(name) for name in layers]
        shape = made[-1].shape
        along = {
            axis: {
                size: self._along(made, size, limit, axis)
                for size in (*(one for one in SIZES if one < limit), limit)
            }
            for axis, limit in ((ROWS, shape.rows), (COLUMNS, shape.width))
        }
        for rows, down in along[ROWS].items():
            ends = self._ends(begin, end, Stage(layers=layers, rows=rows))
            for across in along[COLUMNS].values():
                held = {name: down[name][0] * across[name][0] for name in layers[:-1]}
                work = sum(self._work(name, down[name][1] * across[name][1]) for name in layers)
                yield (ends + self._two_at_a_time(held, layers), work, 0, 0, 0), ()
        upright, both = self._rows_kept(layers), whole(begin) + whole(end)
        for across in along[COLUMNS].values():
            held = {name: upright[name] * across[name][0] for name in layers[:-1]}
            work = sum(
                self._work(name, network.layer(name).shape.rows * across[name][1])
                for name in layers
            )
            yield (both + sum(self._sizes(held).values()), work, 0, 0, 0), ()

    def _ends(self, begin: int, end: int, stage: Stage) -> int:
        """Bytes of what a group reads and writes, the one over dead rows of the other."""
        source, result = self._moves.whole_bytes(begin), self._moves.whole_bytes(end)
        pace = self._moves.pace(GroupMove(begin, end, (stage,)))
        row = self._table.row_bytes
        lead = least_lead([pace], row(self._layer_order.at(begin)), row(self._layer_order.at(end)))
        return max(source + min(lead, result), result)

    def _along(
        self, made: Sequence[Layer], size: int, limit: int, axis: int
    ) -> dict[str, tuple[int, int]]:
        """The most places of a tile along an axis, and those of all tiles, for each layer."""
        found = bands(self._needs, made, even_ends(limit, -(-limit // size)), axis)
        spans = {layer.name: [end - first for first, end in found[layer.name]] for layer in made}
        return {name: (max(every), sum(every)) for name, every in spans.items()}

    def _rows_kept(self, layers: Sequence[str]) -> dict[str, int]:
        """Rows that a ring of each tensor has while rows of the result are made one by one."""
        inside = set(layers)
        nodes = [
            StageFirings(
                result=name,
                readings=tuple(
                    reading
                    for reading in self._table.geometry(Stage(layers=(name,))).firings.readings
                    if reading.tensor in inside
                ),
                made=tuple(range(self._table.height(name) + 1)),
            )
            for name in layers
        ]
        return kept_places(nodes, dict.fromkeys(layers, Keeping.RING))

    def _sizes(self, places: dict[str, int]) -> dict[str, int]:
        network = self._table.network
        return {
            name: count * network.layer(name).shape.channels * self._table.bytes_of(name)
            for name, count in places.items()
        }

    def _two_at_a_time(self, places: dict[str, int], layers: Sequence[str]) -> int:
        """The most bytes of what a layer reads and writes inside a tile."""
        sizes, network = self._sizes(places), self._table.network
        return max(
            sizes.get(name, 0) + sum(sizes.get(one, 0) for one in set(network.layer(name).inputs))
            for name in layers
        )

    def _work(self, name: str, places: int) -> int:
        layer = self._table.network.layer(name)
        each = layer.shape.rows * layer.shape.width
        once = multiply_accumulates(layer, self._table.network.input_shapes(layer))
        return once * max(places, each) // each


class Compared(NamedTuple):
    """The front of a network with tiles beside the one without.

    groups: of tiles, in the search. points: of the front with tiles. improved: those that no plan
    without tiles equals in bytes and work. saved: the largest part of the bytes that they save.
    """

    title: str
    ends: str
    groups: int
    points: int
    improved: int
    saved: float


def compared(title: str, network: Network, *, is_outside: bool, labels: int = LABELS) -> Compared:
    """Return how the front of a network changes with tiles, in int8.

    is_outside: whether input and result lie outside the arena, where tiles may read them again.
    """
    layer_order = topological_order(network)
    ends = {layer_order.at(0), *layer_order.others, *layer_order.results} if is_outside else ()
    table = StageTable(network, element_bytes=1, outside=frozenset(ends))
    moves = GroupMoves(layer_order, table)
    tiles = Tiles(moves)
    limit = most_bytes(layer_order, table)
    spaces = [moves, GroupMoves(layer_order, table, PARTS), RecomputingMoves(layer_order, table)]
    without = [plan for one in spaces for plan in points(one, limit, labels, None)]
    beside = points(moves, limit, labels, tiles)
    saved = [1 - memory / least for memory, work, _ in beside if (least := _least(without, work))]
    better = [part for part in saved if part > 0]
    where = "outside" if is_outside else "in the arena"
    return Compared(title, where, tiles.count, len(beside), len(better), max(better, default=0.0))


def most_bytes(layer_order: TopologicalOrder, table: StageTable) -> int:
    """Bytes with which each network can be worked by lines alone."""
    plans = PlanFront(
        MinimumMacsMoves(layer_order, table), ANY, is_streamed=False, labels=LABELS
    ).plans
    return min(memory for memory, _, _ in plans)


def points(
    moves: GroupMoves, limit: int, labels: int, tiles: Tiles | None
) -> Sequence[tuple[int, int, tuple[JoinedMoves, ...]]]:
    """Return the plans of a search, within the bytes that lines need."""
    separators = range(len(moves.layer_order.separators))
    others = None if tiles is None else {begin: tiles.behind(begin) for begin in separators}
    return PlanFront(moves, limit, is_streamed=False, labels=labels, others=others).plans


def _least(plans: Sequence[tuple[int, int, tuple[JoinedMoves, ...]]], work: int) -> int:
    return min((memory for memory, macs, _ in plans if macs <= work), default=ANY)


def cells(one: Compared) -> str:
    """A line of the table."""
    saved = f"{one.saved:.1%}" if one.improved else ""
    return (
        f"| {one.title} | {one.ends} | {one.groups:,} | {one.points} | {one.improved} | {saved} |"
    )


def page() -> str:
    """Return the page."""
    lines = [PREFACE, f"| {' | '.join(HEADER)} |", "|---" * len(HEADER) + "|"]
    subjects = [(name, name) for name in CATALOGUE]
    subjects += [(one.title, str(MODELS / one.file)) for one in CHAINS]
    total = improved = 0
    for title, model in subjects:
        network = network_of(Subject(title, model))
        for is_outside in (False, True):
            found = compared(title, network, is_outside=is_outside)
            lines.append(cells(found))
            total, improved = total + found.points, improved + found.improved
    lines += ["", f"Of {total} points tiles improve {improved}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
