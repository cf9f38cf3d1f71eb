import json
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest
from evolution_problems import Knapsack
from hypothesis import given, settings
from hypothesis import strategies as st

from csdf.errors import GaveUp, UnreadableFile
from csdf.time_limit import Stop
from planners.published.nsga2 import SearchLimits, Settings, evolve
from planners.reuse.executors import Checkpoint, Serial

EVALUATE = Knapsack()
PROBLEM = EVALUATE.problem
LIMITS = SearchLimits(evaluations=117)  # in the middle of a generation


class Counted:
    """The knapsack, and how often it was evaluated."""

    def __init__(self):
        self.count = 0

    def __call__(self, chromosome):
        self.count += 1
        return EVALUATE(chromosome)


def opened(file, evaluate=EVALUATE, problem=PROBLEM, stop=None):
    checkpoint = Checkpoint(Serial(evaluate), file, problem)
    checkpoint.open(stop or Stop())
    return checkpoint


def search(executor, *, seed=1, limits=LIMITS, **options):
    return evolve(
        PROBLEM,
        executor,
        random=Random(seed),
        limits=limits,
        settings=Settings(population=10),
        seeds=((1,) * 8,),
        **options,
    )


WHOLE = search(Serial(EVALUATE))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "state.json"
    assert search(opened(path)) == WHOLE
    return path


def test_a_search_of_a_checkpoint_evaluates_nothing_again_but_its_front(file):
    counted = Counted()
    checkpoint = opened(file, counted)
    assert counted.count == len(WHOLE.points)
    assert search(checkpoint) == WHOLE
    assert counted.count == len(WHOLE.points)


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
        search(opened(file), seed=seed, budget=Stop(report=watch))
    assert search(opened(file), seed=seed) == search(Serial(EVALUATE), seed=seed)


def test_a_resumed_search_may_go_further_than_the_first(file):
    further = SearchLimits(evaluations=150)
    assert search(opened(file), limits=further) == search(Serial(EVALUATE), limits=further)
    assert len(file.read_text().splitlines()) == 1 + 150


def test_a_line_that_was_cut_off_is_evaluated_again(file):
    content = file.read_bytes()
    file.write_bytes(content[:-9])
    assert search(opened(file)) == WHOLE
    assert file.read_bytes() == content


def test_every_digit_of_a_number_survives(tmp_path):
    score = (10**40 + 1, Fraction(1, 3**50))
    one = [(0,) * 8]
    first = opened(tmp_path / "state.json", lambda _: score)
    assert list(first.scores(one, Stop())) == [score]
    assert list(opened(tmp_path / "state.json", lambda _: score).scores(one, Stop())) == [score]


def changed(file, line, **values):
    lines = file.read_text().splitlines()
    lines[line] = json.dumps(json.loads(lines[line]) | values)
    file.write_text("\n".join([*lines, ""]))


@pytest.mark.parametrize(
    ("what", "value"), [("objectives", ["-1", "2/3"]), ("objectives", ["0", "0"])]
)
def test_a_score_of_the_front_that_its_chromosome_does_not_have_is_refused(file, what, value):
    changed(file, 3, **{what: value})  # better than all others
    with pytest.raises(UnreadableFile, match="the file was changed") as caught:
        opened(file)
    assert str(caught.value).startswith(f"{file}: [3]: ")


def test_scores_of_other_costs_are_refused(file):
    # The same problem, but a program that computes other weights: all old scores are wrong.
    with pytest.raises(UnreadableFile, match="its search had other costs"):
        opened(file, Knapsack(weights=(4, 5, 7, 11, 13, 17, 19, 23)))


def test_a_file_that_has_every_chromosome_is_evaluated_again_as_a_whole(tmp_path):
    # 2^8 chromosomes. Else a forged score would make a front of few "proved".
    file = tmp_path / "state.json"
    everything = search(opened(file), limits=SearchLimits())
    assert everything.is_proved
    assert search(opened(file), limits=SearchLimits()) == everything
    changed(file, 5, objectives=["1000", "1000"])
    with pytest.raises(UnreadableFile, match="the file was changed"):
        opened(file)


def test_the_file_is_evaluated_again_before_the_last_chromosome_completes_it(tmp_path):
    file = tmp_path / "state.json"
    search(opened(file), limits=SearchLimits())
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:-1], ""]))
    changed(file, 5, objectives=["1000", "1000"])
    with pytest.raises(UnreadableFile, match=r"\[5\]: .*the file was changed"):
        search(opened(file), limits=SearchLimits())


def test_the_line_of_a_malformed_entry_is_named(file):
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:4], "", *lines[4:], ""]))
    with pytest.raises(UnreadableFile, match=r"state\.json:5: not JSON"):
        opened(file)


def test_the_look_at_a_checkpoint_ends_with_the_stop(file):
    with pytest.raises(GaveUp):
        opened(file, stop=Stop(steps=0))


def test_a_checkpoint_of_another_problem_is_refused(file):
    with pytest.raises(UnreadableFile, match="another problem") as caught:
        opened(file, problem=replace(PROBLEM, identity="another"))
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]\n", "{}\n", '{"format": "other"}\n', "\0"])
def test_what_is_no_checkpoint_is_refused(tmp_path, text):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(UnreadableFile, match=r"state\.json"):
        opened(tmp_path / "state.json")


def test_a_file_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "state.json").write_bytes(b"\xff\n")
    with pytest.raises(UnreadableFile, match="UTF-8"):
        opened(tmp_path / "state.json")


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"genes": "zz"}, "expected a list"),
        ({"genes": [9] * 8}, "gene 0: found 9"),
        ({"genes": [0]}, "1 genes"),
        ({"objectives": ["1"]}, "a score of 1 value"),
        ({"objectives": []}, "a score of 0 values"),
        ({"objectives": ["1/0", "1"]}, "expected a number"),
        ({"objectives": ["1e999999999", "1"]}, "expected a number"),
        ({"other": 1}, "other"),
    ],
)
def test_a_malformed_checkpoint_is_one_message(file, values, complaint):
    changed(file, 2, **values)
    with pytest.raises(UnreadableFile, match=complaint) as caught:
        opened(file)
    assert str(file) in str(caught.value)
