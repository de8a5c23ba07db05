import pickle
import re
from pathlib import Path
from typing import ClassVar

import pytest

import surefoot as sf
from surefoot.policies import REGISTRY
from surefoot.reporting import story
from surefoot.reporting.results import results
from surefoot.rules import Floats
from surefoot.simulation.episode import Factory
from surefoot.simulation.study import EXAMPLE, Study, StudyError

pytestmark = pytest.mark.filterwarnings("ignore:the margin")

SMALL = """
title = "Small"
seeds = 2
horizon = 300
checkpoints = [100, 300]

[[scenarios]]
id = "dose-finding-v1"

[[scenarios]]
id = "lower-bound-v1"
name = "nu_3"
instance = 3
horizon = 500

[[scenarios]]
table = "arms.csv"
thresholds = [0.5]

[[policies]]
policy = "solb"
learning_rate = 0.3

[[policies]]
policy = "colb"
name = "soft"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with tables of arms in it."""
    (tmp_path / "arms.csv").write_text("arm,success_rate,value\n0,0.9,0.2\n1,0.4,0.8\n")
    (tmp_path / "risky.csv").write_text("loss,cost\n0.5,0.6\n0.1,0.7\n")
    (tmp_path / "words.csv").write_text("name\nhello\n")
    (tmp_path / "big.csv").write_text("loss,cost\n0.5,1.6\n0.1,0.7\n")
    (tmp_path / "latin.csv").write_bytes("größe\n1\n".encode("latin-1"))
    return tmp_path


# Right ones


def test_the_example_can_be_run_as_it_stands(folder: Path) -> None:
    study = Study.parse(EXAMPLE.format(name="study.toml"), folder, "study.toml")
    assert study.title == "Who keeps the guardrails?"
    assert [simulation.plan.scenario.id for simulation in study.simulations] == ["three-arms-v1", "nu_2"]
    for simulation in study.simulations:
        assert list(simulation.plan.policies) == ["solb", "solb, paper", "colb", "unguarded"]
        assert simulation.plan.seeds == list(range(10))
    assert study.simulations[1].plan.scenario.problem.horizon == 20_000


def test_what_the_example_leaves_out_is_right_too(folder: Path) -> None:
    # every line that is commented out, but for prose
    keys = r"^# (?=horizon =|checkpoints =|feedback|\[\[scenarios\]\]|\w+ = )"
    text = re.sub(keys, "", EXAMPLE.format(name="study.toml"), flags=re.MULTILINE)
    assert text.count("[[scenarios]]\n") == 4
    study = Study.parse(text, folder, "study.toml")
    ids = [simulation.plan.scenario.id for simulation in study.simulations]
    assert ids[:3] == ["three-arms-v1", "nu_2", "arms"]
    assert len(ids) == 3 + 11
    assert ids[3] == "margins, margin=0.05, n_arms=3"
    assert "margins, margin=0.2, n_arms=30" not in ids


def test_a_small_study_runs(folder: Path) -> None:
    (folder / "small.toml").write_text(SMALL)
    study = Study.read(folder / "small.toml")
    assert study.rounds == 2 * 2 * 3 * 300
    run = study.run(folder / "results", workers=2)
    assert run.complete
    assert run.provenance["title"] == "Small"
    assert run.provenance["study"] == {
        "name": "small.toml",
        "path": str((folder / "small.toml").resolve()),
        "text": SMALL,
    }
    keys = [(row["scenario"], row["policy"], row["seed"], row["round"]) for row in run.table.to_pylist()]
    assert keys == [
        (scenario, policy, seed, round_)
        for scenario in ("dose-finding-v1", "nu_3", "arms")
        for policy in ("solb", "soft")
        for seed in (0, 1)
        for round_ in (100, 300)
    ]
    kept = sf.Run.load(folder / "results")
    assert kept.table.equals(run.table)
    assert kept.provenance == run.provenance


def test_a_study_is_what_its_simulations_are(folder: Path) -> None:
    run = Study.parse(SMALL, folder, "small.toml").run(workers=1)
    policies: dict[str, Factory] = {
        "solb": lambda problem, seed: sf.SOLB(problem, seed, learning_rate=0.3),
        "soft": sf.COLB,
    }
    dose = sf.simulate(sf.scenarios.make("dose-finding-v1", horizon=300), policies, 2, [100, 300], 1)
    assert run.table.slice(0, 8).combine_chunks().equals(dose.table.combine_chunks())


def test_what_is_left_out_has_its_default(folder: Path) -> None:
    text = 'scenarios = [{id = "dose-finding-v1"}]\npolicies = [{policy = "colb"}]'
    study = Study.parse(text, folder, "mine.toml")
    assert study.title == "mine"
    (simulation,) = study.simulations
    assert simulation.plan.scenario.problem.horizon == 50_000
    assert simulation.plan.seeds == list(range(10))
    assert simulation.plan.checkpoints[-1] == 50_000


def test_a_table_may_name_its_safe_strategy(folder: Path) -> None:
    for safe, wanted in (("0", [1.0, 0.0]), ("{strategy = [0.75, 0.25], costs = [0.3]}", [0.75, 0.25])):
        text = f'[[scenarios]]\ntable = "arms.csv"\nthresholds = 0.5\nhorizon = 900\nsafe = {safe}\n'
        study = Study.parse(text + '[[policies]]\npolicy = "solb"', folder, "study.toml")
        strategy = study.simulations[0].plan.scenario.problem.safe
        assert strategy is not None
        assert strategy.strategy.tolist() == wanted


# Wrong ones: each gives a sentence that names the key. Lines stand with " / " between them.

HEAD = "horizon = 300\n"
SCENARIO = '[[scenarios]]\nid = "stochastic-v1"\n'
POLICY = '[[policies]]\npolicy = "colb"\n'
TABLE = 'table = "arms.csv" / thresholds = 0.5'


def lines(text: str) -> str:
    return text.replace(" / ", "\n") + "\n"


def with_key(text: str) -> str:
    return lines(text) + SCENARIO + POLICY


def with_scenario(text: str) -> str:
    return HEAD + "[[scenarios]]\n" + lines(text) + POLICY


def with_policy(text: str) -> str:
    return HEAD + SCENARIO + "[[policies]]\n" + lines(text)


NO_TOML = ["seeds = ", 'title = "a', "seeds = 1 / seeds = 2", "seeds 3", "[[scenarios]", "seeds = 01"]

WHOLE = [
    ("", r"scenarios must be one or more tables \[\[scenarios\]\], got nothing\npolicies must be .*, got nothing$"),
    (SCENARIO, r"policies must be one or more tables \[\[policies\]\], got nothing$"),
    (POLICY, r"scenarios must be one or more tables \[\[scenarios\]\], got nothing$"),
    ("scenarios = []\n" + POLICY, r"scenarios must be one or more .*, got \[\]$"),
    ("policies = []\n" + SCENARIO, r"policies must be one or more .*, got \[\]$"),
    ("scenarios = 3\n" + POLICY, r"scenarios must be one or more .*, got 3$"),
    ('[policies]\npolicy = "colb"\n' + SCENARIO, r"policies must be one or more .*, got {'policy': 'colb'}$"),
    ('scenarios = ["stochastic-v1"]\n' + POLICY, r"scenarios\[0\] must be a table .*, got 'stochastic-v1'$"),
    ('policies = ["colb"]\n' + SCENARIO, r"policies\[0\] must be a table .*, got 'colb'$"),
    (HEAD + SCENARIO + SCENARIO + POLICY, r"scenarios\[1\].name must be different .*, got 'stochastic-v1'$"),
    (HEAD + SCENARIO + POLICY + POLICY, r"policies\[1\].name must be different .*, got 'colb'$"),
    (HEAD + SCENARIO + POLICY + 'name = "a"\n' + POLICY + 'name = "a"', r"policies\[1\].name must be .*, got 'a'$"),
    (HEAD + SCENARIO + '[[scenarios]]\nid = "zzz"\n' + POLICY, r"scenarios\[1\].id must be one of .*, got 'zzz'$"),
    (f"[[scenarios]]\n{lines(TABLE)}{POLICY}", r"scenarios\[0\].horizon must be given .*, got nothing$"),
    (
        f'{HEAD}[[scenarios]]\ntable = "risky.csv"\nthresholds = 0.6\n[[policies]]\npolicy = "solb"',
        r"policies\[0\] \(solb\): problem must have a safe strategy .*, got safe=None \(in scenario risky\)$",
    ),
    (
        f'{HEAD}[[scenarios]]\ntable = "risky.csv"\nthresholds = 0.5\n{POLICY}',
        r"thresholds\[0\] = 0.5 cannot be met: .* \(in scenario risky\)$",
    ),
]

KEYS = [
    ("seds = 3", r"a key .* must be one of title, seeds, .*, got 'seds' \(did you mean seeds\?\)$"),
    ("workers = 3", r"a key of the study must be one of title, seeds, .*, got 'workers'$"),
    ("int = 3", r"a key of the study must be one of .*, got 'int'"),  # what Pydantic calls types
    ("none = 3", r"a key of the study must be one of .*, got 'none'"),
    ("'a[' = 3", r"a key of the study must be one of .*, got 'a\['"),
    ("title = 3", r"title must be a text, got 3$"),
    ("title = true", r"title must be a text, got True$"),
    ("seeds = 0", r"seeds must be .*, got 0\b"),
    ("seeds = -2", r"seeds must be .*, got -2\b"),
    ("seeds = true", r"seeds must be a whole number >= 1, or a list .*, got True$"),
    ("seeds = 2.5", r"seeds must be a whole number .*, got 2.5$"),
    ("seeds = '2'", r"seeds must be a whole number .*, got '2'$"),
    ("seeds = {a = 1}", r"seeds must be a whole number .*, got {'a': 1}$"),
    ("seeds = []", r"seeds must be one or more, each once, got \[\]"),
    ("seeds = [1, 2, 1]", r"seeds must be one or more, each once, got \[1, 2, 1\]"),
    ("seeds = [1, -2]", r"seeds\[1\] must be a whole number .*, got -2\b"),
    ("seeds = [1, 'a']", r"seeds must be .*, got \[1, 'a'\]$"),
    ("seeds = [true]", r"seeds must be .*, got \[True\]$"),
    ("checkpoints = 0", r"checkpoints must be .*, got 0\b"),
    ("checkpoints = []", r"checkpoints must be increasing .*, got \[\]"),
    ("checkpoints = [9, 5]", r"checkpoints must be increasing .*, got \[9, 5\]"),
    ("horizon = 9 / checkpoints = [10]", r"checkpoints must be .* horizon = 9, got \[10\]"),
    ("checkpoints = [1.5]", r"checkpoints must be .*, got \[1.5\]$"),
    ("checkpoints = false", r"checkpoints must be .*, got False$"),
    ("checkpoints = 'all'", r"checkpoints must be .*, got 'all'$"),
    ("horizon = 2", r"horizon must be a whole number in .*, got 2$"),
    ("horizon = 4", r"scenarios\[0\].horizon must be at least n_arms = 5, got 4$"),
    ("horizon = 300.5", r"horizon must be a whole number in .*, got 300.5$"),
    ("horizon = 'long'", r"horizon must be a whole number in .*, got 'long'$"),
    ("horizon = true", r"horizon must be a whole number in .*, got True$"),
]

IN_SCENARIO = [
    ('id = "stochastc-v1"', r"id must be .*, got 'stochastc-v1' \(did you mean stochastic-v1\?\)$"),
    ('id = "zzz"', r"id must be one of .*, got 'zzz'$"),
    ("id = 3", r"id must be one of .*, got 3$"),
    ('id = ""', r"id must be one of .*, got ''$"),
    ('name = "x"', r"id must be given, or else table, got neither$"),
    ('id = "three-arms-v1" / table = "arms.csv"', r"id must be given, or else table, got both$"),
    ('id = "three-arms-v1" / horzon = 9', r"horzon must .*delta\), got 'horzon' \(did you mean horizon\?\)$"),
    ('id = "three-arms-v1" / margin = 0.1', r"margin must be one of the options .*, got 'margin'"),
    ('id = "three-arms-v1" / horizon = 1', r"horizon must be .*, got 1$"),
    ('id = "three-arms-v1" / delta = 1.0', r"delta must be in \(0, 1\), got 1.0$"),
    ('id = "three-arms-v1" / name = ""', r"name must be a text of at most 60 signs, got ''$"),
    ('id = "three-arms-v1" / name = 3', r"name must be a text of at most 60 signs, got 3$"),
    ('id = "lower-bound-v1" / instance = 5', r"instance must be .*, got 5$"),
    ('id = "lower-bound-v1" / gap = true', r"gap must be .*, got True$"),
    ('id = "lower-bound-v1" / omega = "a"', r"omega must be .*, got 'a'$"),
    ('id = "switching-v1" / horizon = "long"', r"horizon must be .*, got 'long'$"),
    ('id = "tight-margin-v1" / margin = "small"', r"margin must be .*, got 'small'$"),
    ('id = "tight-margin-v1" / margin = 0.7', r"margin must be .*, got 0.7$"),
    ('id = "many-arms-v1" / n_arms = 2.5', r"n_arms must be .*, got 2.5$"),
    ('id = "many-arms-v1" / n_arms = 0', r"n_arms must be .*, got 0$"),
    ('table = "no.csv" / thresholds = 0.5', r"table must be a file, got .*no.csv$"),
    ('table = "arms.txt" / thresholds = 0.5', r"table must end with .csv or .parquet, got .*arms.txt$"),
    ('table = "words.csv" / thresholds = 0.5', r"table must be a table with .*, got"),
    ('table = "big.csv" / thresholds = 0.5', r"cost.* must be in \[0, 1\], got 1.6$"),
    ('table = "latin.csv" / thresholds = 0.5', r"table must be a table that can be read, got"),
    ("table = 3", r"table must be the name of a file, got 3$"),
    ('table = "arms.csv"', r"thresholds must be given .*, got nothing$"),
    ('table = "arms.csv" / thresholds = [0.5, 0.5]', r"thresholds must be .*, got"),
    ('table = "arms.csv" / thresholds = ["0.5"]', r"thresholds must be .*, got"),
    ('table = "arms.csv" / thresholds = 50', r"thresholds must be .*, got 50$"),
    ('table = "arms.csv" / thresholds = [[1], [2, 3]]', r"thresholds must be .*, got"),
    ('table = "arms.csv" / threshold = 0.5', r"threshold must be .*, got .* \(did you mean thresholds\?\)$"),
    (TABLE + " / safe = 7", r"safe must be an arm: a number below 2, or its name in the table, got 7$"),
    (TABLE + " / safe = 0.5", r"safe must be .*, got 0.5$"),
    (TABLE + " / safe = true", r"safe must be .*, got True$"),
    (TABLE + " / safe = [0]", r"safe must be .*, got \[0\]$"),
    (TABLE + " / safe = 'first'", r"safe must be .*, got 'first'$"),
    (TABLE + " / safe = 1", r"safe.costs\[0\] must be below .*, got 0.6$"),
    (TABLE + " / safe = {costs = [0.1]}", r"safe must have the keys strategy, costs, got \['costs'\]$"),
]

IN_POLICY = [
    ('policy = "slb"', r"policy must be one of .*, got 'slb' \(did you mean solb\?\)$"),
    ('policy = "zzz"', r"policy must be one of .*, got 'zzz'$"),
    ("policy = 3", r"policy must be one of .*, got 3$"),
    ('name = "x"', r"policy must be one of .*, got nothing$"),
    ('policy = "colb" / name = []', r"name must be a text of at most 60 signs, got \[\]$"),
    ('policy = "colb" / learning_rat = 1', r"learning_rat must be .*, got .* \(did you mean learning_rate\?\)$"),
    ('policy = "log-barrier" / confidence = "paper"', r"confidence must be one of the options of .*, got"),
    ('policy = "colb" / seed = 1', r"seed must be one of the options of policy colb .*, got 'seed'"),
    ('policy = "colb" / learning_rate = -1', r"learning_rate must be .*, got -1\b"),
    ('policy = "colb" / learning_rate = nan', r"learning_rate must be .*, got nan\b"),
    ('policy = "colb" / learning_rate = "fast"', r"learning_rate must be .*, got 'fast'"),
    ('policy = "colb" / learning_rate = true', r"learning_rate must be .*, got True"),
    ('policy = "colb" / preset = "x"', r"preset must be .*, got 'x'"),
]


def refused(text: str, folder: Path, sentence: str) -> None:
    """The text is refused with this sentence, and every error is one that names its parts, or says what cannot be."""
    with pytest.raises(StudyError, match=rf"^{sentence}") as raised:
        Study.parse(text, folder, "study.toml")
    assert {type(error) for error in raised.value.errors} <= {sf.RuleError, sf.Infeasible}
    assert str(raised.value).splitlines() == [str(error) for error in raised.value.errors]


@pytest.mark.parametrize("text", NO_TOML)
def test_what_is_no_toml_is_refused(text: str, folder: Path) -> None:
    refused(lines(text), folder, r"study.toml must be valid TOML, got .*")


@pytest.mark.parametrize(("text", "sentence"), WHOLE)
def test_a_wrong_file_is_refused(text: str, sentence: str, folder: Path) -> None:
    refused(text, folder, sentence)


@pytest.mark.parametrize(("text", "sentence"), KEYS)
def test_a_wrong_key_is_refused(text: str, sentence: str, folder: Path) -> None:
    refused(with_key(text), folder, sentence)


@pytest.mark.parametrize(("text", "sentence"), IN_SCENARIO)
def test_a_wrong_scenario_is_refused(text: str, sentence: str, folder: Path) -> None:
    refused(with_scenario(text), folder, rf"scenarios\[0\].{sentence}")


@pytest.mark.parametrize(("text", "sentence"), IN_POLICY)
def test_a_wrong_policy_is_refused(text: str, sentence: str, folder: Path) -> None:
    refused(with_policy(text), folder, rf"policies\[0\].{sentence}")


def test_a_wrong_horizon_that_nobody_uses_is_refused(folder: Path) -> None:
    refused(f"horizon = -3\n{SCENARIO}horizon = 300\n{POLICY}", folder, r"horizon must be a whole number in .*, got -3")


def told(text: str, folder: Path) -> list[str]:
    """The keys that a text is refused for, in order."""
    with pytest.raises(StudyError) as raised:
        Study.parse(text, folder, "study.toml")
    return [error.argument for error in raised.value.errors if isinstance(error, sf.RuleError)]


def test_several_mistakes_are_told_together(folder: Path) -> None:
    text = 'seeds = true\ntitle = 3\nhorizn = 9\nscenarios = [{id = 3}, 4]\npolicies = [{name = "x"}, {policy = []}]'
    assert sorted(told(text, folder)) == [
        "a key of the study", "policies[0].policy", "policies[1].policy", "scenarios[0].id", "scenarios[1]", "seeds",
        "title",
    ]  # fmt: skip


def test_several_mistakes_in_options_are_told_together(folder: Path) -> None:
    text = (
        '[[scenarios]]\nid = "lower-bound-v1"\nomega = 3\n[[scenarios]]\nid = "zzz"\n'
        '[[policies]]\npolicy = "zzz"\n[[policies]]\npolicy = "colb"\nlearning = 1\n'
    )
    assert told(text, folder) == ["scenarios[0].omega", "scenarios[1].id", "policies[0].policy", "policies[1].learning"]


def test_wrong_values_of_two_policies_are_told_together(folder: Path) -> None:
    text = with_policy('policy = "colb" / learning_rate = -1 / [[policies]] / policy = "solb" / preset = "x"')
    assert told(text, folder) == ["policies[0].learning_rate", "policies[1].preset"]


def test_files_that_cannot_be_read_are_refused(folder: Path) -> None:
    for path in (folder / "missing.toml", folder, folder / "latin.csv"):
        with pytest.raises(StudyError, match=r"^study must be a file that can be read, got"):
            Study.read(path)


def test_what_an_option_says_names_the_policy_and_what_a_problem_says_the_scenario(folder: Path) -> None:
    with pytest.raises(StudyError) as raised:
        Study.parse(
            with_policy('policy = "colb" / preset = "x" / [[policies]] / policy = "ucb1"'), folder, "study.toml"
        )
    (error,) = raised.value.errors
    assert isinstance(error, sf.RuleError)
    assert (error.argument, error.value) == ("policies[0].preset", "x")


def test_an_error_of_a_study_survives_pickling(folder: Path) -> None:
    with pytest.raises(StudyError) as raised:
        Study.parse(with_key("horizon = 2 / seeds = true"), folder, "study.toml")
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value)
    assert [error.argument for error in again.errors] == ["seeds", "horizon"]


def test_whole_numbers_may_be_written_as_floats(folder: Path) -> None:
    plans = [
        Study.parse(with_key(text), folder, "study.toml").simulations[0].plan
        for text in (
            "horizon = 1e3 / seeds = 2.0 / checkpoints = [1e2, 1e3]",
            "horizon = 1000 / seeds = 2 / checkpoints = [100, 1000]",
        )
    ]
    assert plans[0].scenario.to_dict() == plans[1].scenario.to_dict()
    assert plans[0].seeds == plans[1].seeds == [0, 1]
    assert plans[0].checkpoints == plans[1].checkpoints == [100, 1000]


# Interruption


class Halting(sf.COLB):
    """COLB, which is interrupted after its first checkpoint in one of the scenarios, while it is armed."""

    armed: ClassVar[int | None] = None  # the number of arms of that scenario
    played: ClassVar[list[int]] = []

    def live(self, losses: Floats, costs: Floats, strategies: Floats, safe_weights: Floats) -> None:
        if self.armed == self.problem.n_arms and self.round > 0:
            raise KeyboardInterrupt
        super().live(losses, costs, strategies, safe_weights)
        if len(losses) > 1:  # not the one round of the look at it
            self.played.append(self.problem.n_arms)


TWO = """
seeds = {seeds}
horizon = 300
checkpoints = [100, 300]
scenarios = [{{id = "dose-finding-v1"}}, {{id = "three-arms-v1"}}]
policies = [{{policy = "colb"}}, {{policy = "log-barrier"}}]
"""
FIRST, SECOND = 6, 3  # arms


@pytest.fixture
def halting(monkeypatch: pytest.MonkeyPatch) -> type[Halting]:
    monkeypatch.setitem(REGISTRY, "colb", Halting)
    monkeypatch.setattr(Halting, "armed", None)
    monkeypatch.setattr(Halting, "played", [])
    return Halting


@pytest.mark.parametrize("armed", [FIRST, SECOND])
def test_an_interrupted_study_goes_on_where_it_stopped(armed: int, halting: type[Halting], folder: Path) -> None:
    text = TWO.format(seeds=3)
    whole = Study.parse(text, folder, "study.toml").run(workers=1)
    halting.armed = armed
    part = Study.parse(text, folder, "study.toml").run(folder / "results", workers=1)
    assert not part.complete
    kept = sf.Run.load(folder / "results")
    assert kept.table.equals(part.table)
    scenarios = set(part.table.column("scenario").to_pylist())
    assert scenarios == (set() if armed == FIRST else {"dose-finding-v1"})  # every seed of the armed one halts
    halting.armed = None
    halting.played.clear()
    resumed = Study.parse(text, folder, "study.toml", resume=kept).run(folder / "results", workers=2)
    assert resumed.complete
    assert resumed.table.combine_chunks().equals(whole.table.combine_chunks())
    assert sf.Run.load(folder / "results").table.equals(resumed.table)
    assert (FIRST in halting.played) == (armed == FIRST)
    assert SECOND in halting.played


def test_results_of_scenarios_that_were_not_reached_are_kept(halting: type[Halting], folder: Path) -> None:
    before = Study.parse(TWO.format(seeds=2), folder, "study.toml").run(folder / "results", workers=1)
    halting.armed = FIRST  # a third seed, in whose first scenario it is interrupted
    part = Study.parse(TWO.format(seeds=3), folder, "study.toml", resume=before).run(folder / "results", workers=1)
    assert not part.complete
    for run in (part, sf.Run.load(folder / "results")):
        assert run.table.combine_chunks().equals(before.table.combine_chunks())
    halting.armed = None
    resumed = Study.parse(TWO.format(seeds=3), folder, "study.toml", resume=part).run(workers=1)
    whole = Study.parse(TWO.format(seeds=3), folder, "study.toml").run(workers=1)
    assert resumed.table.combine_chunks().equals(whole.table.combine_chunks())


def test_a_study_that_is_complete_is_not_run_again(halting: type[Halting], folder: Path) -> None:
    text = TWO.format(seeds=2)
    whole = Study.parse(text, folder, "study.toml").run(workers=1)
    halting.played.clear()
    again = Study.parse(text, folder, "study.toml", resume=whole).run(workers=1)
    assert halting.played == []
    assert again.table.combine_chunks().equals(whole.table.combine_chunks())


def test_only_what_was_changed_is_run_again(halting: type[Halting], folder: Path) -> None:
    before = Study.parse(TWO.format(seeds=2), folder, "study.toml").run(workers=1)
    halting.played.clear()
    changed = TWO.format(seeds=2).replace('id = "three-arms-v1"', 'id = "three-arms-v1", delta = 0.1')
    with pytest.warns(
        UserWarning, match="^the earlier run of three-arms-v1 is not reused, because its scenario changed$"
    ):
        Study.parse(changed, folder, "study.toml", resume=before).run(workers=1)
    assert set(halting.played) == {SECOND}


def test_the_study_of_own_arms_on_the_page_has_the_verdict_that_the_page_shows(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")
    page = page[page.index("## Your own arms") : page.index("## Running")]
    arms, study = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("csv", "toml"))
    assert arms is not None
    assert study is not None
    (tmp_path / "arms.csv").write_text(arms[1])
    (found,) = results(Study.parse(study[1], tmp_path, "own.toml").run())
    shown = " ".join(page.replace("\n>", " ").split())
    for line in story.story(found):
        assert f"{line.name} {line.text}".replace(story.GLUE, " ") in shown
    assert list(found.arms) == ["flagship", "fast", "in-house"]
    safe = found.problem.safe
    assert safe is not None
    assert safe.strategy.tolist() == [0.0, 0.0, 1.0]


def test_the_study_on_the_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")
    found = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert found is not None
    run = Study.parse(found[1].replace("20_000", "100"), tmp_path, "study.toml").run()
    assert {row["policy"] for row in run.summary().to_pylist()} == {"solb", "default"}
