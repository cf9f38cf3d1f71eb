"""Dual-ascent lower bound on the cost of leaving all infeasible boxes at a storage distribution.

A cut lists limits of some variables; it holds where none of them is exceeded, and must be left by
exceeding one. The bound is a dual ascent: each cut that holds charges as much as the cheapest exit
still bears; a longer step of the same variable includes what a shorter one was charged.
"""

from __future__ import annotations


class Table:
    """The cuts, V variables each. R cuts have room.

    steps, weights: (V,) of the variables. limits: (R * V,) flat, -1 where a cut says nothing of the
    variable. order: (R,) the cuts in the order in which they charge. price, amount: (V * R,) what each
    variable was charged, `charges` of them, (V,), by price. first: the first cut in `order` that holds,
    or -1.
    """

    def __init__(self, steps, weights, limits, order, blank):
        """Keep these arrays. blank: makes zeros of the kernel's kind."""
        self.steps = steps
        self.weights = weights
        self.limits = limits
        self.order = order
        self.price = blank(len(limits))
        self.amount = blank(len(limits))
        self.charges = blank(len(steps))
        self.first = -1


def leaving_cost(table, capacities, cuts):
    """Return the bound. capacities: (V,). cuts: how many there are."""
    total = 0
    table.first = -1
    for variable in range(len(capacities)):
        table.charges[variable] = 0
    for position in range(cuts):
        cut = table.order[position]
        if holds(table, capacities, cut):
            if table.first < 0:
                table.first = cut
            # Dual ascent: raise the dual variable of the cut until its cheapest exit is tight.
            charge = cheapest_way_out(table, capacities, cut)
            if charge > 0:
                total += charge
                charge_all(table, capacities, cut, charge)
    return total


def holds(table, capacities, cut):
    """Whether no limit of the cut is exceeded."""
    row = cut * len(capacities)
    for variable in range(len(capacities)):
        limit = table.limits[row + variable]
        if 0 <= limit < capacities[variable]:
            return False
    return True


def way_out(table, capacities, variable, limit):
    """Return what the shortest step of a variable beyond this limit costs."""
    return (limit + table.steps[variable] - capacities[variable]) * table.weights[variable]


def cheapest_way_out(table, capacities, cut):
    """Return the minimum that the exits of a cut still bear, or -1 without any.

    Charges are sorted by price: those of shorter steps count for a step and for all longer ones, those
    of longer steps for the longer ones alone.
    """
    variables = len(capacities)
    least = -1
    for variable in range(variables):
        limit = table.limits[cut * variables + variable]
        if limit < 0:
            continue
        price = way_out(table, capacities, variable, limit)
        base = variable * len(table.order)
        spent = 0
        left = price
        for k in range(table.charges[variable]):
            # Dual feasibility: charges at prices up to p may add up to p at most. The slack of this
            # step is the minimum over its own price and all higher prices.
            spent += table.amount[base + k]
            if table.price[base + k] <= price:
                left = price - spent
            elif table.price[base + k] - spent < left:
                left = table.price[base + k] - spent
        if least < 0 or left < least:
            least = left
    return least


def charge_all(table, capacities, cut, charge):
    """Charge every exit of a cut."""
    variables = len(capacities)
    for variable in range(variables):
        limit = table.limits[cut * variables + variable]
        if limit < 0:
            continue
        price = way_out(table, capacities, variable, limit)
        base = variable * len(table.order)
        k = table.charges[variable]
        # Insertion sort: charges stay ordered by price, as `cheapest_way_out` requires.
        while k > 0 and table.price[base + k - 1] > price:
            table.price[base + k] = table.price[base + k - 1]
            table.amount[base + k] = table.amount[base + k - 1]
            k -= 1
        table.price[base + k] = price
        table.amount[base + k] = charge
        table.charges[variable] += 1
