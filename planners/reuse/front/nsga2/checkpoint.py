"""The state of a search in a JSON file."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Sequence
from contextlib import closing
from itertools import product
from random import Random

import numpy as np

from csdf.errors import UnreadableFile
from csdf.io.files import read_text, write_text
from csdf.io.json_value import JsonValue
from csdf.model.exact import MalformedText, signed_rational
from csdf.time_limit import Budget, Stop, stop_of
from planners.reuse.front.archive import Archive
from planners.reuse.front.nsga2.nsga2 import Genome, Origin, RandomState, SearchState, digests
from planners.reuse.front.places.evaluation import Place, scored
from planners.reuse.front.problem import (
    InvalidSearch,
    Number,
    Point,
    Problem,
    Score,
)

FORMAT = "csdf evolution 1"
KEYS = (
    "format",
    "origin",
    "generation",
    "random",
    "population",
    "archive",
    "least_violation",
    "seen",
)
ORIGIN_KEYS = ("problem", "settings", "seeds", "random")
POINT_LISTS = ("population", "archive")
CHANGED = "the file was changed, or its search had other costs; begin anew without it"
POINT_KEYS = ("genes", "objectives", "violation")


class Checkpoint:
    """A file for the state of searches of one problem."""

    def __init__(self, path: str | os.PathLike[str], problem: Problem) -> None:
        self._path = path
        self._genome = Genome(problem)
        self._written: dict[Point, dict[str, object]] = {}  # of the last state

    def write(self, state: SearchState) -> None:
        """Put the state in the file, whole or not at all. Raises UnwritableFile."""
        self._written = {
            point: self._written.get(point) or _written(self._genome, point)
            for point in (*state.population, *state.archive)
        }
        least = state.least_violation
        document = {
            "format": FORMAT,
            "origin": {key: getattr(state.origin, key) for key in ORIGIN_KEYS},
            "generation": state.generation,
            "random": state.random,
            "population": [self._written[point] for point in state.population],
            "archive": [self._written[point] for point in state.archive],
            "least_violation": None if least is None else str(least),
            "seen": base64.b64encode(np.array(state.seen, dtype="<u8").tobytes()).decode(),
        }
        write_text(self._path, json.dumps(document) + "\n")

    def read(self, origin: Origin, place: Place, budget: Budget = None) -> SearchState:
        """Return the state in the file, after all its chromosomes were evaluated again.

        Raises UnreadableFile if it is no checkpoint, or one of a search with another origin, or if a
        chromosome has another score than the file says; GaveUp where `budget` ends the work;
        EvaluationFailed.
        """
        stop = stop_of(budget)
        document = _document(self._path)
        document.require_keys(KEYS)
        found = _origin(document["origin"])
        try:
            origin.require_same(found)
        except InvalidSearch as error:
            raise UnreadableFile(f"{self._path}: {error}") from None
        least = document["least_violation"]
        state = SearchState(
            origin=found,
            generation=document["generation"].natural(),
            random=_random_state(document["random"]),
            population=_points(self._genome, document["population"]),
            archive=_points(self._genome, document["archive"]),
            least_violation=None if least.is_null else _number(least),
            seen=_seen(document["seen"]),
        )
        entries = [entry for name in POINT_LISTS for entry in document[name].items()]
        self._require_scores(entries, (*state.population, *state.archive), place, stop)
        self._require_seen(document["seen"], state)
        self._require_front(document["archive"], state, place, stop)
        return state

    def _require_scores(
        self,
        entries: Sequence[JsonValue],
        points: Sequence[Point],
        place: Place,
        stop: Stop,
    ) -> None:
        """Refuse an entry whose chromosome has another score."""
        found = scored(place, [point.chromosome for point in points], stop)
        with closing(found):
            for entry, point, again in zip(entries, points, found, strict=True):
                if again != point:
                    true, told = (_written(self._genome, one) for one in (again, point))
                    what = next(key for key in POINT_KEYS if true[key] != told[key])
                    raise entry[what].refusal(f"its chromosome has {true[what]}; {CHANGED}")

    def _require_seen(self, entry: JsonValue, state: SearchState) -> None:
        """Refuse digests that cannot be those of all chromosomes evaluated by then."""
        points = (*state.population, *state.archive)
        known = digests(self._genome.rows([point.chromosome for point in points]))
        if len(set(state.seen)) < len(state.seen) or not set(state.seen).issuperset(known):
            raise entry.refusal(f"expected each chromosome of the file, once; {CHANGED}")

    def _require_front(
        self, entry: JsonValue, state: SearchState, place: Place, stop: Stop
    ) -> None:
        """Refuse an archive that misses a point, of the population or, where all were seen, of all."""
        archive = Archive()
        archive.add((*state.archive, *state.population))
        problem = self._genome.problem
        if len(state.seen) >= problem.size:
            archive.add(list(scored(place, list(product(*problem.alleles)), stop)))
        if archive.points != state.archive:
            raise entry.refusal(f"expected the front of all that was evaluated; {CHANGED}")


def _document(path: str | os.PathLike[str]) -> JsonValue:
    document = JsonValue.parse(read_text(path), str(path))
    content = document.value
    if type(content) is not dict or content.get("format") != FORMAT:
        raise UnreadableFile(f"{path}: not a checkpoint; expected the format {FORMAT!r}")
    return document


def _origin(value: JsonValue) -> Origin:
    value.require_keys(ORIGIN_KEYS)
    return Origin(**{key: value[key].text() for key in ORIGIN_KEYS})


def _written(genome: Genome, point: Point) -> dict[str, object]:
    return {
        "genes": genome.text(point.chromosome),
        "objectives": [str(value) for value in point.score.objectives],
        "violation": str(point.score.violation),
    }


def _points(genome: Genome, value: JsonValue) -> tuple[Point, ...]:
    return tuple(_point(genome, entry) for entry in value.items())


def _point(genome: Genome, value: JsonValue) -> Point:
    value.require_keys(POINT_KEYS)
    objectives = tuple(_number(entry) for entry in value["objectives"].items())
    violation = _number(value["violation"])
    try:
        score = Score(objectives=objectives, violation=violation)
        chromosome = genome.chromosome(value["genes"].text())
        genome.problem.require_score(chromosome, score)
    except (ValueError, InvalidSearch) as error:
        raise value.refusal(f"expected a chromosome and its score: {error}") from None
    return Point(chromosome=chromosome, score=score)


def _number(value: JsonValue) -> Number:
    try:
        exact = signed_rational(value.text())
    except MalformedText:
        raise value.refusal("expected a number such as 7 or 7/2, as text") from None
    return exact.numerator if exact.denominator == 1 else exact


def _random_state(value: JsonValue) -> RandomState:
    entries = list(value.items())
    if len(entries) != 3 or type(entries[2].value) not in (float, type(None)):
        raise value.refusal("expected the state of a random generator")
    state = (entries[0].natural(), entries[1].naturals(), entries[2].value)
    try:
        Random().setstate(state)
    except (ValueError, OverflowError):
        raise value.refusal("expected the state of a random generator") from None
    return state


def _seen(value: JsonValue) -> tuple[int, ...]:
    try:
        content = base64.b64decode(value.text(), validate=True)
        return tuple(np.frombuffer(content, dtype="<u8").tolist())
    except (binascii.Error, ValueError):
        raise value.refusal("expected digests of 8 bytes in base 64") from None
