"""Path of blocked actors, each waiting for tokens of the next, up to the first repeated actor."""

from __future__ import annotations

ABSENT = -1  # no position on the path; no channel that is known to lack tokens


class WaitingPath:
    """The path of a graph of A actors and C channels.

    actors: (A,) the path, `length` of them. position: (A,) on the path, or ABSENT. awaited: (A,) the
    channel for whose tokens each actor waits, or ABSENT until it is known. producer: (C,).
    """

    def __init__(self, actors, position, awaited, producer):
        """Keep these arrays."""
        self.actors = actors
        self.position = position
        self.awaited = awaited
        self.producer = producer
        self.length = 0


def extend(path, actor):
    """Append the actor, the actor that it waits for, and so on. O(new actors).

    Stops before an actor that is on the path, and after an actor whose awaited channel is not known.
    """
    length = path.length
    while path.position[actor] == ABSENT:
        path.position[actor] = length
        path.actors[length] = actor
        length += 1
        if path.awaited[actor] == ABSENT:
            break
        actor = path.producer[path.awaited[actor]]
    path.length = length


def shorten(path, length):
    """Remove all actors from this position on; the channels that they wait for are kept."""
    for position in range(length, path.length):
        path.position[path.actors[position]] = ABSENT
    path.length = length
