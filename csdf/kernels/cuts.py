"""What it costs at least to leave every cut that holds at a storage distribution.

A cut lists limits of some variables; it holds where none of them is exceeded, and must be left by
exceeding one. The bound is a dual ascent: each cut that holds charges as much as the cheapest of its
ways out still bears; a longer step of the same variable includes what a shorter one was charged.
"""

from __future__ import annotations


def leaving_cost(
    capacities,
    steps,
    weights,
    limits,
    order,
    cuts,
    charged_price,
    charged_amount,
    charged_count,
    first,
):
    """Return the bound; write the first cut in `order` that holds, or -1.

    capacities, steps, weights: (V,) of the variables. limits: (cuts * V,) flat, -1 where a cut says
    nothing of the variable. order: (cuts,) the cuts in the order in which they charge.
    charged_price, charged_amount: (V * cuts,), charged_count: (V,) scratch. first: (1,) out.
    """
    variables = len(capacities)
    room = len(order)
    total = 0
    first[0] = -1
    for variable in range(variables):
        charged_count[variable] = 0
    for position in range(cuts):
        cut = order[position]
        row = cut * variables
        holds = True
        for variable in range(variables):
            limit = limits[row + variable]
            if 0 <= limit < capacities[variable]:
                holds = False
                break
        if not holds:
            continue
        if first[0] < 0:
            first[0] = cut
        charge = -1
        for variable in range(variables):
            limit = limits[row + variable]
            if limit < 0:
                continue
            price = (limit + steps[variable] - capacities[variable]) * weights[variable]
            # Charges are sorted by price: those of shorter steps count for this one and for all
            # longer ones, those of longer steps for the longer ones alone.
            base = variable * room
            spent = 0
            left = price
            for k in range(charged_count[variable]):
                spent += charged_amount[base + k]
                if charged_price[base + k] <= price:
                    left = price - spent
                elif charged_price[base + k] - spent < left:
                    left = charged_price[base + k] - spent
            if charge < 0 or left < charge:
                charge = left
        if charge <= 0:
            continue
        total += charge
        for variable in range(variables):
            limit = limits[row + variable]
            if limit < 0:
                continue
            price = (limit + steps[variable] - capacities[variable]) * weights[variable]
            base = variable * room
            k = charged_count[variable]
            while k > 0 and charged_price[base + k - 1] > price:
                charged_price[base + k] = charged_price[base + k - 1]
                charged_amount[base + k] = charged_amount[base + k - 1]
                k -= 1
            charged_price[base + k] = price
            charged_amount[base + k] = charge
            charged_count[variable] += 1
    return total
