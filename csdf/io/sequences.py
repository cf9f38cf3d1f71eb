"""Numbers and cyclic sequences as SDF3 writes them: `1,2`, or `3*128,0` for `128,128,128,0`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

from csdf.model.exact import MalformedText, natural, rational, shown

Number = TypeVar("Number")

LARGEST_PHASE_COUNT = 10**7
CACHE_ENTRIES = 1000  # of a cache of parsed sequences, and of parsed entries of a long sequence
SHORT = 100  # phases, and characters, of a sequence that is cached


def sequence_length(text: str) -> int:
    """Return the number of phases that the sequence covers before it repeats."""
    if ";" in text:
        raise MalformedText(f"{shown(text)}: more than one ';'; expected INITIAL;CYCLE")
    if "*" not in text:
        return text.count(",") + 1
    length = sum(_run(entry)[0] for entry in text.split(","))
    if length > LARGEST_PHASE_COUNT:
        raise MalformedText(f"{shown(text)} is longer than the limit of {LARGEST_PHASE_COUNT}")
    return length


def split_initial(text: str) -> tuple[str, str]:
    """Return the initial phases, empty where there are none, and the cycle of `INITIAL;CYCLE`."""
    initial, semicolon, cycle = text.partition(";")
    return (initial, cycle) if semicolon else ("", text)


def _run(entry: str) -> tuple[int, str]:
    count, star, value = entry.partition("*")
    if not star:
        return 1, entry
    repetitions = natural(count)
    if not repetitions:
        raise MalformedText(f"{shown(entry)} repeats a value 0 times")
    return repetitions, value


def parse_rates(text: str, phases: int) -> tuple[int, ...]:
    """Return the rate of each phase; `phases` is a multiple of the length of the sequence."""
    is_short = phases <= SHORT and len(text) <= SHORT
    return (_cached_cycle if is_short else _cycle)(text, phases, natural)


def parse_times(text: str, phases: int) -> tuple[int | Fraction, ...]:
    """Return the time of each phase; `phases` is a multiple of the length of the sequence."""
    return (_cached_cycle if phases == 1 else _cycle)(text, phases, _parse_time)


def _parse_time(text: str) -> int | Fraction:
    """Return what `rational` does, as the cheaper integer where it is one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else rational(text)


def _cycle(text: str, phases: int, parse: Callable[[str], Number]) -> tuple[Number, ...]:
    if "," not in text and "*" not in text:
        return (parse(text),) * phases
    values: list[Number] = []
    runs: dict[str, list[Number]] = {}  # a cache: long sequences repeat few distinct entries
    for entry in text.split(","):
        run = runs.get(entry)
        if run is None:
            count, value = _run(entry)
            run = [parse(value)] * count
            if len(runs) < CACHE_ENTRIES:
                runs[entry] = run
        values.extend(run)
    return tuple(values) * (phases // len(values))


# Few distinct short texts occur in a graph.
_cached_cycle = lru_cache(maxsize=CACHE_ENTRIES)(_cycle)


def format_sequence(values: Iterable[int | Fraction]) -> str:
    """Return the values in full, without repetition counts, which not every tool reads."""
    return ",".join(map(str, values))


def format_decimal(number: Fraction) -> str:
    """Return the number as a decimal where that is exact and short, else as `p/q`."""
    for places in range(40):
        scaled = number * 10**places
        if scaled.denominator == 1:
            digits = str(scaled.numerator).zfill(places + 1)
            return f"{digits[:-places]}.{digits[-places:]}" if places else digits
    return str(number)


def abbreviate_sequence(values: Iterable[int]) -> str:
    """Return the values with equal neighbours run together, for people: `3*128,0`."""
    runs = [(len(list(group)), value) for value, group in itertools.groupby(values)]
    return ",".join(str(value) if count == 1 else f"{count}*{value}" for count, value in runs)
