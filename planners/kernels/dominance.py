"""Points that no other point dominates, by a staircase.

Smaller numbers are better. The P points have three numbers, and are sorted by the third. The staircase
holds the first two numbers of the points kept so far, by growing first and falling second number.
Source: Kung, Luccio and Preparata, On Finding the Maxima of a Set of Vectors, J. ACM 22(4), 1975.
"""

from __future__ import annotations


def undominated(first, second, order, firsts, seconds, kept):
    """Write the numbers of the points that no preceding point dominates; return their number.

    first, second: (P,). order: (P,) point numbers, by their third, first and second number. firsts,
    seconds: (P,) room for the staircase. kept: (P,) point numbers, in their order. O(P log P) for short
    staircases.
    """
    steps = 0
    count = 0
    for i in range(len(order)):
        point = order[i]
        value = first[point]
        place = 0
        high = steps
        while place < high:  # bisection: after the last step whose first number is at most `value`
            middle = (place + high) // 2
            if value < firsts[middle]:
                high = middle
            else:
                place = middle + 1
        # Dominated: a kept point is no worse in the first two numbers, and by the order in the
        # third.
        if place > 0 and seconds[place - 1] <= second[point]:
            continue
        end = place
        # Steps that the new point dominates in the first two numbers leave the staircase.
        while end < steps and seconds[end] >= second[point]:
            end += 1
        if place > 0 and firsts[place - 1] == value:
            place -= 1
        if end == place:
            for step in range(steps, place, -1):
                firsts[step] = firsts[step - 1]
                seconds[step] = seconds[step - 1]
        else:
            for step in range(end, steps):
                firsts[step - end + place + 1] = firsts[step]
                seconds[step - end + place + 1] = seconds[step]
        steps += place + 1 - end
        firsts[place] = value
        seconds[place] = second[point]
        kept[count] = point
        count += 1
    return count
