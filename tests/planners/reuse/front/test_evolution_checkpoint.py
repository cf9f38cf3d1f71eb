import base64
import json
from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest
from evolution_problems import Knapsack
from hypothesis import given, settings
from hypothesis import strategies as st
from planners.reuse.front.nsga2.nsga2 import digests, origin_of

from csdf.errors import GaveUp, UnreadableFile
from csdf.time_limit import Stop
from planners.published.nsga2 import Genome, SearchLimits, Settings, evolve
from planners.reuse.executors import Checkpoint, Serial
from planners.reuse.problem import InvalidSearch, Score

SMALL = Settings(population=10)
EVALUATE = Knapsack(limit=60)
PLACE = Serial(EVALUATE)
PROBLEM = EVALUATE.problem
SEEDS = ((1,) * 8,)
LIMITS = SearchLimits(evaluations=117)  # in the middle of a generation


def origin(*, seed=1, searched=PROBLEM, made_by=SMALL, seeds=SEEDS):
    return origin_of(searched, random=Random(seed), settings=made_by, seeds=seeds)


def search(*, seed=1, limits=LIMITS, **options):
    return evolve(
        PROBLEM, PLACE, random=Random(seed), limits=limits, settings=SMALL, seeds=SEEDS, **options
    )


@pytest.fixture(scope="module")
def states():
    kept = []
    search(keep=kept.append)
    return kept


@pytest.fixture
def file(tmp_path, states):
    Checkpoint(tmp_path / "state.json", PROBLEM).write(states[3])
    return tmp_path / "state.json"


def test_a_state_survives_its_file(file, states):
    assert Checkpoint(file, PROBLEM).read(origin(), PLACE) == states[3]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 110), st.integers(0, 1000))
def test_a_killed_search_resumes_to_the_same_front(tmp_path_factory, looks, seed):
    file = tmp_path_factory.mktemp("killed") / "state.json"
    left = iter(range(looks))

    def watch(_):
        if next(left, None) is None:
            raise SystemExit  # not answered, as if the process had ended

    with pytest.raises(SystemExit):
        search(seed=seed, budget=Stop(report=watch), keep=Checkpoint(file, PROBLEM).write)
    state = Checkpoint(file, PROBLEM).read(origin(seed=seed), PLACE) if file.exists() else None
    resumed, whole = search(seed=seed, state=state), search(seed=seed)
    assert resumed == whole


def test_a_resumed_search_may_go_further_than_the_first(states):
    further = SearchLimits(evaluations=150)
    assert search(limits=further, state=states[-1]) == search(limits=further)


def test_every_digit_of_a_number_survives(tmp_path, states):
    score = Score(objectives=(10**40 + 1, Fraction(1, 3**50)))
    point = replace(states[0].population[0], score=score)
    state = replace(states[0], population=(point,), archive=(point,))
    Checkpoint(tmp_path / "state.json", PROBLEM).write(state)
    read = Checkpoint(tmp_path / "state.json", PROBLEM).read(origin(), Serial(lambda _: score))
    assert read.population[0].score.objectives == (10**40 + 1, Fraction(1, 3**50))


@pytest.mark.parametrize("points", ["population", "archive"])
@pytest.mark.parametrize(("what", "value"), [("objectives", ["1", "2/3"]), ("violation", "5/7")])
def test_a_score_that_its_chromosome_does_not_have_is_refused(file, points, what, value):
    document = json.loads(file.read_text())
    true = document[points][2][what]
    document[points][2][what] = value
    file.write_text(json.dumps(document))
    with pytest.raises(UnreadableFile) as caught:
        Checkpoint(file, PROBLEM).read(origin(), PLACE)
    message = str(caught.value)
    assert message.startswith(f"{file}: {points}[2].{what}: found {value!r}")
    assert f"its chromosome has {true}" in message


def test_scores_of_other_costs_are_refused(file):
    # The same problem, but a program that computes other weights: all old scores are wrong.
    place = Serial(Knapsack(weights=(4, 5, 7, 11, 13, 17, 19, 23), limit=60))
    with pytest.raises(UnreadableFile, match="its search had other costs"):
        Checkpoint(file, PROBLEM).read(origin(), place)


def changed(file, **lists):
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {key: of(document) for key, of in lists.items()}))


def test_an_archive_without_a_point_of_its_population_is_refused(file):
    # The best of the population is in the archive of the same generation.
    changed(
        file, archive=lambda old: [one for one in old["archive"] if one != old["population"][0]]
    )
    with pytest.raises(UnreadableFile, match=r"archive: .* expected the front of all"):
        Checkpoint(file, PROBLEM).read(origin(), PLACE)


def test_an_archive_with_a_point_that_another_dominates_is_refused(file, states):
    left = next(one for one in states[0].archive if one not in states[3].archive)
    state = replace(states[3], archive=(*states[3].archive, left))
    Checkpoint(file, PROBLEM).write(state)
    with pytest.raises(UnreadableFile, match=r"archive: .* expected the front of all"):
        Checkpoint(file, PROBLEM).read(origin(), PLACE)


def digests_of(rows):
    return base64.b64encode(np.array(digests(rows), dtype="<u8").tobytes()).decode()


def test_digests_that_lack_a_chromosome_of_the_file_are_refused(file):
    changed(file, seen=lambda _: digests_of(Genome(PROBLEM).rows([(0,) * 8])))
    with pytest.raises(UnreadableFile, match=r"seen: .* expected each chromosome of the file"):
        Checkpoint(file, PROBLEM).read(origin(), PLACE)


def test_a_search_that_says_it_saw_everything_has_the_front_of_everything(file, states):
    # 2^8 chromosomes. A forged file that says all were seen would make a front of few "proved".
    everything = Genome(PROBLEM).rows(list(product((0, 1), repeat=8)))
    changed(file, seen=lambda _: digests_of(everything))
    with pytest.raises(UnreadableFile, match="expected the front of all that was evaluated"):
        Checkpoint(file, PROBLEM).read(origin(), PLACE)
    finished = []
    assert search(limits=SearchLimits(), keep=finished.append).is_proved
    Checkpoint(file, PROBLEM).write(finished[-1])
    assert Checkpoint(file, PROBLEM).read(origin(), PLACE) == finished[-1]


def test_the_look_at_a_checkpoint_ends_with_the_watch(file):
    def watch(_):
        raise GaveUp("time is up")

    with pytest.raises(GaveUp, match="time is up"):
        Checkpoint(file, PROBLEM).read(origin(), PLACE, Stop(report=watch))


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (origin(searched=replace(PROBLEM, identity="another")), "another problem"),
        (origin(made_by=Settings(population=11)), "another settings"),
        (origin(seeds=()), "another chromosomes to start from"),
        (origin(seed=2), "another random seed"),
    ],
)
def test_a_checkpoint_of_another_search_is_refused(file, other, what):
    with pytest.raises(UnreadableFile, match=what) as caught:
        Checkpoint(file, PROBLEM).read(other, PLACE)
    assert str(file) in str(caught.value)


def test_a_state_of_another_search_is_refused(states):
    with pytest.raises(InvalidSearch, match="another random seed"):
        search(seed=2, state=states[0])


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "other"}', "\0"])
def test_what_is_no_checkpoint_is_refused(tmp_path, text):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(UnreadableFile, match=r"state\.json"):
        Checkpoint(tmp_path / "state.json", PROBLEM).read(origin(), PLACE)


def test_a_missing_file_and_one_that_is_not_text_are_refused(tmp_path):
    with pytest.raises(UnreadableFile, match="cannot be read"):
        Checkpoint(tmp_path / "state.json", PROBLEM).read(origin(), PLACE)
    (tmp_path / "state.json").write_bytes(b"\xff")
    with pytest.raises(UnreadableFile, match="UTF-8"):
        Checkpoint(tmp_path / "state.json", PROBLEM).read(origin(), PLACE)


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (("generation",), -1, "expected an integer >= 0"),
        (("generation",), None, "expected an integer >= 0"),
        (("origin", "seeds"), 3, "expected a text"),
        (("random",), [3], "expected the state of a random generator"),
        (("random", 0), 99, "expected the state of a random generator"),
        (("random", 1), [2**32] * 625, "expected the state of a random generator"),
        (("population", 0, "genes"), "zz", "expected a chromosome"),
        (("population", 0, "genes"), "09" * 8, "not a chromosome of this problem"),
        (("population", 0, "genes"), "00", "not a chromosome of this problem"),
        (("population", 0, "objectives"), ["1"], "a score of 1 value"),
        (("population", 0, "objectives"), [], "no objective"),
        (("population", 0, "objectives", 0), "1/0", "expected a number"),
        (("population", 0, "objectives", 0), "1e999999999", "expected a number"),
        (("archive", 0, "violation"), "x", "expected a number"),
        (("archive", 0, "violation"), "-1", "violation of -1"),
        (("archive",), {}, "expected a list"),
        (("seen",), "*", "base 64"),
        (("seen",), "AAAA", "8 bytes"),
    ],
)
def test_a_malformed_checkpoint_is_one_message(file, place, value, complaint):
    document = json.loads(file.read_text())
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    file.write_text(json.dumps(document))
    with pytest.raises(UnreadableFile, match=complaint) as caught:
        Checkpoint(file, PROBLEM).read(origin(), PLACE)
    assert str(file) in str(caught.value)
