"""Lower bound on the cost of all demands, which are least sums of capacities on cycles.

One capacity may serve several demands, so only the costs of demands without a common variable are
added, the most expensive demand first.
"""

from __future__ import annotations


class Demands:
    """The demands, V variables each. R demands have room.

    weights: (V,) cost of a token of each variable. factors: (R * V,) flat, 0 for variables that are not
    in a demand. least: (R,) smallest sum that meets the demand; unit: (R,) the sum changes in
    multiples of this number. missing: (R,) shortfall of the sum, at most 0 if the demand is met;
    cost: (R,) lower bound on the cost of the shortfall. used: (V,) whether a demand that was added
    has the variable. first: the most expensive demand, or -1; lacking: its shortfall.
    """

    def __init__(self, weights, factors, least, unit, blank):
        """Keep these arrays. blank: makes zeros of the kernel's kind."""
        self.weights = weights
        self.factors = factors
        self.least = least
        self.unit = unit
        self.missing = blank(len(least))
        self.cost = blank(len(least))
        self.used = blank(len(weights))
        self.first = -1
        self.lacking = 0


def meeting_cost(demands, capacities, count):
    """Return the bound. capacities: (V,). count: how many demands there are."""
    for demand in range(count):
        find_missing(demands, capacities, demand)
    for variable in range(len(capacities)):
        demands.used[variable] = 0
    # Greedy packing: the costs of demands without a common variable add up to a lower bound.
    demands.first = dearest_free(demands, count)
    total = 0
    demand = demands.first
    demands.lacking = demands.missing[demand] if demand >= 0 else 0
    while demand >= 0:
        total += demands.cost[demand]
        use(demands, demand)
        demand = dearest_free(demands, count)
    return total


def find_missing(demands, capacities, demand):
    """Write the shortfall of a demand, and a lower bound on the cost of the shortfall."""
    variables = len(capacities)
    row = demand * variables
    missing = demands.least[demand]
    for variable in range(variables):
        missing -= demands.factors[row + variable] * capacities[variable]
    unit = demands.unit[demand]
    # The sum changes in multiples of `unit`, so the deficit is rounded up to one.
    missing = (missing + unit - 1) // unit * unit
    demands.missing[demand] = missing
    demands.cost[demand] = -1
    if missing > 0:
        for variable in range(variables):
            factor = demands.factors[row + variable]
            if factor > 0:
                # LP relaxation: the variable with the lowest cost per unit covers all of the
                # deficit. Costs are integers, so the bound is rounded up.
                cost = (missing * demands.weights[variable] + factor - 1) // factor
                if demands.cost[demand] < 0 or cost < demands.cost[demand]:
                    demands.cost[demand] = cost


def dearest_free(demands, count):
    """Return the dearest demand that lacks something and has no used variable, or -1."""
    best = -1
    for demand in range(count):
        if demands.cost[demand] >= 0 and (best < 0 or demands.cost[demand] > demands.cost[best]):
            if is_free(demands, demand):
                best = demand
    return best


def is_free(demands, demand):
    """Whether no variable of a demand is used."""
    variables = len(demands.used)
    for variable in range(variables):
        if demands.used[variable] and demands.factors[demand * variables + variable] > 0:
            return False
    return True


def use(demands, demand):
    """Mark the variables of a demand as used."""
    variables = len(demands.used)
    for variable in range(variables):
        if demands.factors[demand * variables + variable] > 0:
            demands.used[variable] = 1
