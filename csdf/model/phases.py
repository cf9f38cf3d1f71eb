"""Lists of phases of different lengths."""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm


def short_sequences(actor: str, lengths: Mapping[str, int]) -> str | None:
    """Return a remark on lists that are shorter than others of the actor and so repeat, or None.

    lengths: of each list, by what it is called. A single value stands for all phases by custom, and
    is not remarked upon; of two values for four phases two may be forgotten.
    """
    phases = lcm(*lengths.values()) if lengths else 1
    short = [what for what, length in lengths.items() if 1 < length < phases]
    if not short:
        return None
    first = f"the {lengths[short[0]]} values of {short[0]}"
    others = f" and those of {len(short) - 1} more" if len(short) > 1 else ""
    return f"actor {actor!r} has {phases} phases; {first}{others} repeat to fill them"
