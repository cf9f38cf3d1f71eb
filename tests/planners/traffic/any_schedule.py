"""The least traffic of a tiny network over every schedule there is, by search over what is where.

Nothing of planners is used. A value is one element of a tensor that is made; its terms are products
(an element and a weight) or single elements, added in any order. A schedule may bring in an element,
begin a value, add a term whose operands are all in the buffer, write a value, finished or not, and
drop anything, at any time; it may make a value again. Bringing in and writing cost one each.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations, product

from cnn2csdf import operators as op

Element = tuple


@dataclass(frozen=True)
class Work:
    """terms: for each value, the operands of each of its terms. results: values that are written."""

    terms: dict
    results: frozenset


def work_of(network):
    """The values of a network of windows, additions, concatenations and slices."""
    shown, terms = {}, {}  # the element that stands at each place of a tensor; the terms of values
    for layer in network.layers:
        if layer.is_output:
            continue
        places = list(product(*map(range, layer.shape.dims)))
        where = shown[layer.name] = {}
        match layer.operator:
            case op.Input():
                where.update({place: (layer.name, *place) for place in places})
                continue
            case op.Concatenation():
                first = 0
                for source in layer.inputs:
                    for (channel, *area), element in shown[source].items():
                        where[(first + channel, *area)] = element
                    first += network.layer(source).shape.dims[0]
                continue
            case op.Slice(axis=axis, start=start, step=step):
                for place in places:
                    source = list(place)
                    source[axis] = start + step * place[axis]
                    where[place] = shown[layer.inputs[0]][tuple(source)]
                continue
        for place in places:
            where[place] = (layer.name, *place)
            terms[where[place]] = list(_terms(network, layer, place, shown))
    ends = {name for layer in network.outputs for name in layer.inputs}
    written = {element for name in ends for element in shown[name].values()}
    return Work(terms, frozenset(written & terms.keys()))


def _terms(network, layer, place, shown):
    if isinstance(layer.operator, op.Elementwise):
        for source in layer.inputs:
            yield (shown[source][place],)
        return
    source, window = shown[layer.inputs[0]], layer.operator.window
    maps, height, width = network.layer(layer.inputs[0]).shape.dims
    has_weights = isinstance(layer.operator, op.Convolution)
    groups = layer.operator.groups if has_weights else maps
    wide, each = maps // groups, layer.shape.dims[0] // groups
    channel, y, x = place
    for c, u, v in product(range(wide), *map(range, window.kernel)):
        row = y * window.stride[0] + u * window.dilation[0] - window.padding[0]
        column = x * window.stride[1] + v * window.dilation[1] - window.padding[1]
        if 0 <= row < height and 0 <= column < width:
            element = source[channel // each * wide + c, row, column]
            weight = ((layer.name, "weight", channel, c, u, v),) if has_weights else ()
            yield (element, *weight)


def needed(work):
    """All elements that the results depend on, with the results."""
    found, left = set(), list(work.results)
    while left:
        element = left.pop()
        if element not in found:
            found.add(element)
            left += [one for term in work.terms.get(element, ()) for one in term]
    return found


def least_with_any_buffer(work):
    """Elements that come in or go out at least once: in a buffer for everything, no more do."""
    return len([one for one in needed(work) if one not in work.terms]) + len(work.results)


def least_of_any_schedule(work, room, most_states=5_000):
    """The least traffic in a buffer of so many elements; None where that takes too long to tell.

    Goes from term to term: whatever the next term wants and is not there comes in, in place of just
    as many others. Cheapest first, with what still has to cross at least (A*). Terms are added as
    soon as they can be, finished results are written at once, and what is of no use goes: no
    schedule is worse for that.
    """
    search = _Search(work, room)
    start = search.settled(0, 0, 0, 0)
    heap, best, count = [(search.to_come(*start[1:]), 0, *start)], {start[1:]: start[0]}, 0
    while heap:
        _, _, moved, *state = heappop(heap)
        state = tuple(state)
        if best[state] < moved:
            continue
        if search.to_come(*state) == 0:
            return moved
        if len(best) > most_states:
            return None
        for cost, *after in search.steps(*state):
            cost, *after = search.settled(moved + cost, *after)
            after = tuple(after)
            if best.get(after, cost + 1) > cost:
                best[after] = cost
                count += 1
                heappush(heap, (cost + search.to_come(*after), count, cost, *after))
    raise ValueError(f"no schedule runs in a buffer of {room}")


class _Search:
    """States are bits: given elements in the buffer; terms that values there have; and outside.

    A value is in the buffer where it has terms there. One without terms gets one without operands.
    """

    def __init__(self, work, room):
        everything = needed(work)
        self.room = room
        self.given = {
            one: 1 << place for place, one in enumerate(sorted(everything - work.terms.keys()))
        }
        self.terms = {}  # of each value, its terms as bits, with their operands
        self.full = {}
        first = 0
        for value in sorted(everything & work.terms.keys()):
            found = work.terms[value] or [()]
            self.terms[value] = [(1 << first + place, term) for place, term in enumerate(found)]
            self.full[value] = ((1 << len(found)) - 1) << first
            first += len(found)
        self.results = work.results
        self.makes_again = any(
            one in self.full for found in work.terms.values() for term in found for one in term
        )
        self._to_come, self._useful = {}, {}

    def settled(self, moved, given, inside, outside):
        """Add the terms that can be added, write finished results, drop what is of no use."""
        added = -1
        while added != inside:
            added = inside
            for value, terms in self.terms.items():
                if inside & self.full[value]:
                    for bit, term in terms:
                        if not inside & bit and all(
                            self._is_there(one, given, inside) for one in term
                        ):
                            inside |= bit
        for value in self.results:
            full = self.full[value]
            if inside & full == full and outside & full != full:
                outside |= full
                moved += 1
        useful = self.useful(inside, outside)
        for value, full in self.full.items():
            if inside & full and value not in useful:
                inside &= ~full
        given &= sum(bit for one, bit in self.given.items() if one in useful)
        return moved, given, inside, outside

    def _is_there(self, element, given, inside):
        full = self.full.get(element)
        return given & self.given[element] if full is None else inside & full == full

    def useful(self, inside, outside):
        """Elements that what is left to make may ask for, values made again too."""
        key = inside, outside
        if key not in self._useful:
            seen = set()
            left = [one for one in self.results if outside & self.full[one] != self.full[one]]
            while left:
                element = left.pop()
                if element in seen:
                    continue
                seen.add(element)
                for bit, term in self.terms.get(element, ()):
                    if not inside & bit and (self.makes_again or not outside & bit):
                        left += term
            self._useful[key] = seen
        return self._useful[key]

    def to_come(self, given, inside, outside):
        """Elements that must still cross: those that are needed and not there, open results."""
        key = given, inside, outside
        if key not in self._to_come:
            left = [one for one in self.results if outside & self.full[one] != self.full[one]]
            seen, count = set(), len(left)
            while left:
                element = left.pop()
                if element in seen:
                    continue
                seen.add(element)
                if element in self.given:
                    count += not given & self.given[element]
                    continue
                for bit, term in self.terms[element]:
                    if not (inside | outside) & bit:
                        left += term
            self._to_come[key] = count
        return self._to_come[key]

    def steps(self, given, inside, outside):
        """The buffer when it holds all that some next term wants, with the cost."""
        for value in self.useful(inside, outside) & self.terms.keys():
            full = self.full[value]
            if inside & full:
                begun = [(0, inside)]
            else:
                begun = [(1, inside | outside & full)] if outside & full else []
                if not begun or self.makes_again:
                    begun.append((0, inside))
            for cost, bits in begun:
                for bit, term in self.terms[value]:
                    if not bits & bit:
                        yield from self._with(value, bit, term, cost, given, bits, outside)

    def _with(self, value, bit, term, cost, given, inside, outside):
        others = given, inside & ~self.full[value]
        for one in term:
            if one in self.given:
                cost += not given & self.given[one]
                given |= self.given[one]
            elif inside & self.full[one] != self.full[one]:
                if outside & self.full[one] != self.full[one]:
                    return
                cost += 1
                inside |= self.full[one]
        inside |= bit
        wanted = {value, *term}
        left = [one for one, own in self.given.items() if others[0] & own and one not in wanted]
        left += [one for one, own in self.full.items() if others[1] & own and one not in wanted]
        excess = len(left) + len(wanted) - self.room
        if len(wanted) > self.room:
            return
        for gone in combinations(left, max(0, excess)):
            yield from self._without(gone, cost, given, inside, outside)

    def _without(self, gone, cost, given, inside, outside):
        """The buffer without some elements: a value is written before, or lost."""
        ways = [(cost, inside, outside)]
        for one in gone:
            if one in self.given:
                given &= ~self.given[one]
                continue
            full, more = self.full[one], []
            for paid, within, without in ways:
                own = within & full
                if without & full != own:
                    more.append((paid + 1, within & ~full, without & ~full | own))
                if without & full == own or self.makes_again:
                    more.append((paid, within & ~full, without))
            ways = more
        for paid, within, without in ways:
            yield paid, given, within, without
