"""A workload deals its prompts to passes that never meet, and refuses what is too short."""

import json
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.problems import BadInputError
from sweeps.prompt_sets import PROMPT_SETS, built_in
from sweeps.prompts import Prompt
from sweeps.workloads import ROUNDS, WARM_UP_PROMPTS, Workload

LOADED = Workload(prompts="code", concurrencies=(4, 16), requests_per_s=2.0)


def _passes(work: Workload) -> Iterator[list[Prompt]]:
    yield from (work.warm_up(), work.cold(), work.measured(), work.open_loop())
    yield from (work.warming(number) for number in range(work.warming_passes))
    yield from (work.probe(streams) for streams in work.streams)
    yield from (work.loaded(streams) for streams in work.concurrencies)


workloads = st.builds(
    Workload,
    prompts=st.sampled_from(list(PROMPT_SETS)),
    cold_prompts=st.integers(0, 8),
    measured_prompts=st.integers(2, 64),
    concurrencies=st.lists(st.integers(2, 24), max_size=3, unique=True),
    loaded_prompts=st.integers(1, 64),
    requests_per_s=st.none() | st.just(50.0),
    probe_s=st.sampled_from([0.0, 20.0]),
    probe_prompts=st.integers(1, 2),
    warming_prompts=st.integers(1, 6),
    warming_passes=st.integers(0, 5),
    seed=st.integers(0, 2**32),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(workloads)
def test_no_two_passes_share_a_prompt_and_none_repeats_one(work: Workload) -> None:
    assert work.problems() == []
    dealt = [prompt for each in _passes(work) for prompt in each]
    assert len(set(dealt)) == len(dealt) == work.needed_prompts
    assert [list(each) for each in _passes(replace(work))] == list(_passes(work))


@pytest.mark.parametrize("most", [None, 24, 40])
def test_further_prompts_are_those_that_no_pass_has(most: int | None) -> None:
    work = replace(LOADED, most_measured_prompts=most)
    dealt = [prompt for each in _passes(work) for prompt in each]
    further = work.further()
    assert not {*further} & {*dealt}
    there = len(built_in(work.prompts).prompts) if most is None else len(dealt) + most - 24
    assert len(further) + len(dealt) == there


def test_a_workload_of_an_older_version_keeps_to_its_number_of_prompts() -> None:
    data = Workload().as_data()
    del data["most_measured_prompts"]
    old = Workload.from_data(data)
    assert old.further() == []
    assert old.as_data() == data
    assert Workload.from_data(Workload().as_data()).most_measured_prompts is None


@settings(max_examples=30, deadline=None)
@given(workloads, st.integers(0, 2**32))
def test_the_seed_orders_and_nothing_else(work: Workload, seed: int) -> None:
    other = replace(work, seed=seed)
    assert (other.key == work.key) == (seed == work.seed)
    assert (other.measured() == work.measured()) == (seed == work.seed)
    assert [len(each) for each in _passes(other)] == [len(each) for each in _passes(work)]


def test_each_pass_has_the_requests_that_it_needs() -> None:
    assert len(LOADED.warm_up()) == WARM_UP_PROMPTS
    assert len(LOADED.loaded(4)) == LOADED.loaded_prompts
    assert len(LOADED.loaded(16)) == ROUNDS * 16
    assert LOADED.streams == (1, 4, 16)
    assert [len(LOADED.probe(streams)) for streams in LOADED.streams] == [1, 4, 16]
    assert len(LOADED.open_loop()) == 64
    assert Workload().open_loop() == []
    assert Workload(probe_s=0).probe() == []
    assert Workload(concurrency=4).streams == (1, 4)


def test_passes_in_addition_leave_the_others_their_prompts() -> None:
    bare = Workload(prompts="code", warming_passes=0, probe_s=0)
    assert (bare.cold(), bare.measured()) == (LOADED.cold(), LOADED.measured())


@pytest.mark.parametrize("ask", [lambda w: w.loaded(8), lambda w: w.probe(2),
                                 lambda w: w.warming(4)])  # fmt: skip
def test_a_pass_that_is_not_there_is_an_error(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(ValueError, match="no pass"):
        ask(LOADED)


@pytest.mark.parametrize(
    ("work", "field", "says"),
    [
        (Workload(prompts="cod"), "prompts", "Did you mean `code`?"),
        (Workload(prompts="nothing"), "prompts", "conversation"),
        (Workload(prompts="file:nowhere.jsonl"), "prompts", "no such file"),
        (Workload(prompts=["a"]), "prompts", "no text"),  # type: ignore[arg-type] # a slip
        (Workload(max_tokens=1), "max_tokens", "of at least 2"),
        (Workload(max_tokens="512"), "max_tokens", "whole"),  # type: ignore[arg-type] # a slip
        (Workload(max_tokens=True), "max_tokens", "whole"),
        (Workload(cold_prompts=-1), "cold_prompts", "of at least 0"),
        (Workload(measure_s=20.0), "measure_s", "of at least 30"),
        (Workload(measure_s=float("nan")), "measure_s", "of at least 30"),
        (Workload(measure_s=float("inf")), "measure_s", "of at least 30"),
        (Workload(measured_prompts=1), "measured_prompts", "at least 2"),
        (Workload(most_measured_prompts=9), "most_measured_prompts", "or None"),
        (Workload(most_measured_prompts=0), "most_measured_prompts", "of at least 1"),
        (Workload(concurrency=16), "measured_prompts", "at least 48"),
        (Workload(concurrency=0), "concurrency", "of at least 1"),
        (Workload(measured_prompts=700), "measured_prompts", "for at most 617"),
        (Workload(concurrencies=(64, 128)), "prompts", "with at least 815"),
        (Workload(concurrencies=4), "concurrencies", "no list"),  # type: ignore[arg-type] # a slip
        (Workload(concurrencies=(4, 0)), "concurrencies", "no number of streams"),
        (Workload(concurrencies=(4, 4)), "concurrencies", "twice"),
        (Workload(concurrencies=(1,)), "concurrencies", "already"),
        (Workload(requests_per_s=0.0), "requests_per_s", "above 0"),
        (Workload(requests_per_s=0.5), "measure_s", "Give 128 s"),
        (Workload(temperature=-0.1), "temperature", "of at least 0"),
        (Workload(top_p=0.0), "top_p", "above 0, at most 1"),
        (Workload(top_p=1.5), "top_p", "above 0, at most 1"),
        (Workload(top_k=0), "top_k", "-1 for all"),
        (Workload(top_k=-2), "top_k", "of at least -1"),
        (Workload(ignore_eos=1), "ignore_eos", "truth"),  # type: ignore[arg-type] # a slip
        (Workload(dialect="grpc"), "dialect", "chat or generate"),
        (Workload(contents="0123"), "contents", "have changed"),
    ],
)  # fmt: skip
def test_refuses(work: Workload, field: str, says: str) -> None:
    (problem,) = work.problems()
    assert problem.field == f"workload.{field}"
    assert says in str(problem)


def test_a_mend_of_a_shortage_is_enough() -> None:
    assert Workload(measured_prompts=617).problems() == []
    assert Workload(measured_prompts=618).problems() != []


def test_all_problems_are_told_at_once() -> None:
    work = Workload(prompts="file:nowhere", max_tokens=0, top_k=0, concurrencies=(2, 2))
    assert {p.field.removeprefix("workload.") for p in work.problems()} == {
        "prompts", "max_tokens", "top_k", "concurrencies",
    }  # fmt: skip


def test_each_field_changes_the_key_and_stands_in_the_data() -> None:
    base = Workload(warming_passes=3)
    other: dict[str, object] = {
        "prompts": "chat", "dialect": "generate", "ignore_eos": True, "concurrencies": (2,),
        "requests_per_s": 3.0, "top_k": 5, "top_p": 0.5, "most_measured_prompts": 32,
    }  # fmt: skip
    names = {each.name for each in fields(base)}
    keys = {base.key}
    for name in names - {"contents"}:
        value = other[name] if name in other else getattr(base, name) + 1
        keys.add(replace(base, **{name: value}).key)  # type: ignore[arg-type] # one field each
    assert len(keys) == len(names)
    assert json.loads(json.dumps(base.as_data())).keys() == names


def test_a_list_of_concurrencies_is_as_good_as_a_tuple() -> None:
    assert Workload(concurrencies=[4, 8]).key == Workload(concurrencies=(4, 8)).key


def test_a_file_is_known_by_its_contents(tmp_path: Path) -> None:
    lines = [json.dumps(f"Question {n}?") for n in range(60)]
    one, same = tmp_path / "one.jsonl", tmp_path / "same.jsonl"
    for path in (one, same):
        path.write_text("\n".join(lines))
    first = Workload(prompts=f"file:{one}")
    assert first.problems() == []
    assert replace(first, prompts=f"file:{same}").key == first.key
    assert first.as_data()["prompts"] == "file:one.jsonl"
    same.write_text("\n".join([*lines, '"One more?"']))
    assert replace(first, prompts=f"file:{same}").key != first.key


def test_a_settled_file_may_move_with_the_folder_but_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(json.dumps(f"Question {n}?") for n in range(60)))
    monkeypatch.chdir(tmp_path)
    written = Workload(prompts="file:mine.jsonl")
    settled = written.settled(Path.cwd())
    assert settled.key == written.key
    monkeypatch.chdir("/")
    assert settled.measured()[0].text.startswith("Question")
    assert Workload().settled(tmp_path) == Workload()
    path.write_text(path.read_text().replace("Question 3?", "Question three?"))
    (problem,) = settled.problems()
    assert problem.field == "workload.contents"
    for ask in (settled.warm_up, settled.as_data):
        with pytest.raises(BadInputError, match="have changed"):
            ask()
    path.unlink()
    with pytest.raises(BadInputError, match="no such file"):
        settled.cold()


def test_a_short_file_is_told_what_it_needs_and_what_was_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "few.jsonl"
    path.write_text('"a"\n"b"\n"a"\n"c"\n')
    (problem,) = Workload(prompts=f"file:{path}", warming_passes=0, probe_s=0).problems()
    assert "30 distinct prompts are needed (warm-up 2, cold 4, measured 24)" in problem.why
    assert "the file has 3, beside 1 that repeat others" in problem.why
    assert "at least 30" in problem.mend


def test_a_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(json.dumps(f"Question {n}?") for n in range(20_000)))
    work = Workload(prompts=f"file:{path}")
    began_s = time.process_time()
    work.problems()
    first_s = time.process_time() - began_s
    began_s = time.process_time()
    for _ in range(10):
        work.problems()
    assert time.process_time() - began_s < first_s
