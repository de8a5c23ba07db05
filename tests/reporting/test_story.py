"""The verdict in words, expected costs against limits, and what figures do to show them."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import surefoot as sf
from surefoot.analysis.statistics import Interval
from surefoot.reporting import figures, story, words
from surefoot.reporting.courses import Change, CostCourse, changes, drifts, mean_costs
from surefoot.reporting.data import of_figure
from surefoot.reporting.pages import smaller
from surefoot.reporting.report import write_report
from surefoot.reporting.results import PolicyResult, ScenarioResult, results
from surefoot.reporting.simplex import BEST, MARKS, PLAYED, PROPOSAL, REST, SAFE, points, several_plans, subject
from surefoot.reporting.standings import Standing, standings
from surefoot.reporting.style import ARMS, COLOURS, Look, styled
from surefoot.simulation.world import policy_seed

HORIZON = 60


class Plays:
    """A policy that plays a given strategy in each round."""

    def __init__(self, strategies: Any) -> None:
        self._strategies, self._round = np.array(strategies, np.float64), 0

    @property
    def strategy(self) -> Any:
        return self._strategies[min(self._round, len(self._strategies) - 1)]

    def ask(self) -> sf.Decision:
        arm = int(self.strategy.argmax())
        return sf.Decision(arm, float(self.strategy[arm]))

    def tell(self, decision: sf.Decision, loss: float, costs: Any) -> None:
        self._round += 1


def shown(
    strategies: dict[str, Any],
    costs: Any,
    thresholds: list[float],
    losses: Any = None,
    safe: sf.SafeStrategy | None = None,
    checkpoints: list[int] | None = None,
    **names: Any,
) -> ScenarioResult:
    """The results of policies that play these strategies, a row for each round or one for all."""
    arms = np.array(next(iter(strategies.values()))).shape[-1]
    problem = sf.Problem(arms, thresholds, HORIZON, safe=safe)
    losses = sf.losses.Fixed([0.5] * arms) if losses is None else losses
    scenario = sf.Scenario("x-v1", problem, losses, costs, **names)
    made = {name: lambda problem, seed, rows=rows: Plays(np.atleast_2d(rows)) for name, rows in strategies.items()}
    (found,) = results(sf.simulate(scenario, made, 2, checkpoints, workers=1))
    return found


def only(found: ScenarioResult) -> PolicyResult:
    return found.policies[0]


MOVING = np.random.default_rng(4).dirichlet([1, 1, 1], HORIZON)
MEANS = np.array([[0.9, 0.3, 0.1], [0.2, 0.5, 0.7]])


class TestCosts:
    """Against a slow twin: the mean of g_t^T x_t over the rounds between checkpoints."""

    def twin(self, means: Any, checkpoints: list[int]) -> Any:
        each = np.array([means(t) @ MOVING[t] for t in range(HORIZON)])
        return np.array([part.mean(axis=0) for part in np.split(each, checkpoints)[: len(checkpoints)]])

    def test_of_constant_means_are_exact(self) -> None:
        at = [1, 7, 30, 60]
        found = shown({"p": MOVING}, sf.costs.Bernoulli(MEANS), [0.5, 0.5], checkpoints=at)
        course = CostCourse(only(found), found)
        assert course.exact
        np.testing.assert_allclose(course.low, self.twin(lambda t: MEANS, at), atol=1e-12)
        np.testing.assert_array_equal(course.low, course.high)
        np.testing.assert_allclose(course.average[0], (MOVING @ MEANS.T).mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(course.band[0], course.low, atol=1e-12)  # every seed plays the same here

    def test_of_switching_means_are_exact_if_no_change_lies_between_checkpoints(self) -> None:
        phases, at = np.array([MEANS, MEANS[:, ::-1]]), [10, 40, 60]
        model = sf.costs.Switching(phases, at=40)
        found = shown({"p": MOVING}, model, [0.5, 0.5], checkpoints=at)
        course = CostCourse(only(found), found)
        assert course.exact
        np.testing.assert_allclose(course.low, self.twin(lambda t: phases[int(t >= 40)], at), atol=1e-12)

    @pytest.mark.parametrize(
        ("model", "means"),
        [
            (
                sf.costs.Switching([MEANS, MEANS[:, ::-1], MEANS], [13, 47]),
                lambda t: (MEANS, MEANS[:, ::-1], MEANS)[(t >= 13) + (t >= 47)],
            ),
            (
                sf.costs.Drifting(MEANS, MEANS[:, ::-1]),
                lambda t: MEANS + t / (HORIZON - 1) * (MEANS[:, ::-1] - MEANS),
            ),
        ],
    )
    def test_of_other_changing_means_are_within_bounds(self, model: Any, means: Any) -> None:
        at = [10, 20, 50, 60]
        found = shown({"p": MOVING}, model, [0.5, 0.5], checkpoints=at)
        course, wanted = CostCourse(only(found), found), self.twin(means, at)
        assert not course.exact
        assert course.known
        assert (course.low <= wanted + 1e-12).all()
        assert (wanted <= course.high + 1e-12).all()
        assert (course.high - course.low).max() < 0.6  # they say something
        low, high = course.average
        assert (low <= wanted.mean() + 1).all()
        assert (low < high).all()

    def test_a_model_from_outside_is_not_taken_for_exact(self) -> None:
        class Mine(sf.costs.Bernoulli):
            pass

        found = shown({"p": MOVING}, Mine(MEANS), [0.5, 0.5])
        assert not mean_costs(found).known
        assert "upper bounds" in figures.cost_note(found)

    def test_the_data_beside_the_figure_is_what_it_shows(self) -> None:
        found = shown({"p": MOVING}, sf.costs.Bernoulli(MEANS), [0.5, 0.6], checkpoints=[30, 60])
        rows = of_figure("costs", found, None)
        assert [(row["guardrail"], row["round"], row["limit"]) for row in rows] == [
            ("cost 0", 30, 0.5), ("cost 0", 60, 0.5), ("cost 1", 30, 0.6), ("cost 1", 60, 0.6),
        ]  # fmt: skip
        assert rows[1]["cost"] == pytest.approx((MOVING[30:] @ MEANS[0]).mean())


class TestHow:
    costs = sf.costs.Fixed([[0.9, 0.1], [0.2, 0.2]])

    def of(self, strategy: Any) -> tuple[str, str]:
        found = shown({"p": strategy}, self.costs, [0.5, 0.5], guardrails=("spend", "refusals"))
        return story.how(only(found), found), story.sentence(only(found), found).text.replace(story.GLUE, " ")

    def test_kept(self) -> None:
        assert self.of([0.0, 1.0]) == ("kept", "kept both guardrails in every round of all 2 runs.")

    def test_nearly_kept(self) -> None:
        told = self.of([0.51, 0.49])
        assert told == (
            "close", "was over in 100 % of the rounds, but by little: spend averaged 0.508 against a limit of 0.5.",
        )  # fmt: skip

    def test_broken(self) -> None:
        how, told = self.of([1.0, 0.0])
        assert how == "broken"
        assert told == "broke 1 of 2 guardrails, in 100 % of the rounds: spend averaged 0.9 against a limit of 0.5."

    @pytest.mark.parametrize(
        ("over", "told"),
        [
            (0.51, "kept both guardrails in 1 of 2 runs, and was over in 50 % of the rounds, but by little: "),
            (1.0, "broke 1 of 2 guardrails in 1 of 2 runs, in 50 % of the rounds: "),
        ],
    )
    def test_only_some_runs_were_over(self, over: float, told: str) -> None:
        problem, losses = sf.Problem(2, [0.5, 0.5], HORIZON), sf.losses.Fixed([0.5, 0.5])
        scenario = sf.Scenario("x-v1", problem, losses, self.costs, guardrails=("spend", "refusals"))
        share = {policy_seed(0): 0.0, policy_seed(1): over}

        def made(problem: sf.Problem, seed: int) -> Plays:
            return Plays([[share.get(seed, 0.0), 1.0 - share.get(seed, 0.0)]])

        (found,) = results(sf.simulate(scenario, {"p": made}, 2, workers=1))
        assert only(found).final["violating_runs"] == 1
        assert story.sentence(only(found), found).text.replace(story.GLUE, " ").startswith(told)

    def test_far_over_in_a_few_rounds_is_not_little_although_the_average_is_low(self) -> None:
        how, told = self.of([[1.0, 0.0]] * 2 + [[0.0, 1.0]] * (HORIZON - 2))
        assert how == "broken"
        assert told.endswith("in 3 % of the rounds: spend was over its limit of 0.5, there by 0.4 on average.")

    def test_without_guardrails(self) -> None:
        problem = sf.Problem(2, [], 50)
        scenario = sf.Scenario("plain-v1", problem, sf.losses.Fixed([0.2, 0.4]))
        (found,) = results(sf.simulate(scenario, {"p": lambda problem, seed: Plays([[1, 0]])}, 1, workers=1))
        assert story.how(only(found), found) == "none"
        assert story.averages(only(found), found) == []
        assert story.verdict(only(found), found) == "there are none"


class Hard(Plays):
    """A policy that promises to keep the guardrails."""

    kind = "hard"


class TestDelta:
    """What the verdict says of the unsafe runs of a hard policy."""

    def of(self, unsafe: int, runs: int, delta: float = 0.05, kind: type[Plays] = Hard, costs: Any = None) -> str:
        problem = sf.Problem(2, [0.5], HORIZON, delta=delta)
        costs = costs or sf.costs.Fixed([[0.9, 0.1]])
        scenario = sf.Scenario("x-v1", problem, sf.losses.Fixed([0.5, 0.5]), costs)
        broken = {policy_seed(number) for number in range(unsafe)}

        def made(problem: sf.Problem, seed: int) -> Plays:
            return kind([[1.0, 0.0] if seed in broken else [0.0, 1.0]])

        (found,) = results(sf.simulate(scenario, {"p": made}, runs, [HORIZON], workers=1))
        assert only(found).final["violating_runs"] == unsafe
        return story.sentence(only(found), found).text.replace(story.GLUE, " ")

    def test_as_many_as_it_allows(self) -> None:
        assert self.of(1, 20).endswith("; delta = 0.05 allows 1 run in 20.")
        assert self.of(1, 20, 0.01).endswith("; delta = 0.01 allows 1 run in 100.")
        assert self.of(2, 5, 0.15).endswith("; delta = 0.15 allows 3 runs in 20.")  # an exact test, not the share

    def test_more_than_it_allows(self) -> None:
        assert self.of(4, 5).endswith("; that is more than delta = 0.05 allows, 1 run in 20.")
        assert self.of(3, 20, 0.001).endswith("; that is more than delta = 0.001 allows, 1 run in 1,000.")

    def test_of_others_it_says_nothing(self) -> None:
        assert "delta" not in self.of(0, 5)
        assert "delta" not in self.of(1, 5, kind=Plays)

    def test_costs_that_change_are_not_covered(self) -> None:
        moving = sf.costs.Switching([[[0.9, 0.1]], [[0.9, 0.2]]], at=30)
        assert self.of(4, 5, costs=moving).endswith("; delta = 0.05 is for mean costs that do not change.")

    def test_of_many_policies_the_hard_ones_are_told(self) -> None:
        problem = sf.Problem(2, [0.5], HORIZON)
        scenario = sf.Scenario("x-v1", problem, sf.losses.Fixed([0.5, 0.5]), sf.costs.Fixed([[0.9, 0.1]]))
        policies: dict[str, Any] = {f"free {i}": lambda problem, seed: Plays([[1.0, 0.0]]) for i in range(9)}
        policies["hard"] = lambda problem, seed: Hard([[1.0, 0.0] if seed == policy_seed(0) else [0.0, 1.0]])
        (found,) = results(sf.simulate(scenario, policies, 5, [HORIZON], workers=1))
        (line,) = story.story(found)
        assert line.text.endswith(" hard was over in 1 of 5 runs; delta = 0.05 allows 1 run in 20.")


def test_policies_are_judged_by_what_they_promise() -> None:
    def of(name: str, kind: str, safe: bool, rank: int, violation: float) -> Standing:
        interval = Interval(0.1, 0.1, 0.1)
        return Standing(name, kind, safe, rank, None, interval, 1, 9, interval._replace(value=-1e-5),
                        interval._replace(value=violation), None, 1)  # fmt: skip

    listed = [
        of("solb", "hard", True, 1, 0.0), of("bold", "hard", False, 2, 0.1), of("colb", "soft", False, 3, 0.01),
        of("colb, paper", "soft", False, 4, 0.02), of("ucb1", "none", False, 5, 0.3),
        of("mine", "other", False, 6, 0.4),
    ]  # fmt: skip
    lines = [(line.name, line.how, line.text) for line in story.overall([], listed)]
    assert lines == [
        ("1 of 6", "kept", "kept the guardrails as often as delta requires: solb. "
         "Of these solb has the least regret, 0.000 a round on average."),
        ("1 of 6", "broken", "promised to keep the guardrails in every round, and broke them more often than delta "
         "allows: bold. Of these bold is over least, by 0.100 a round on average."),
        ("2 of 6", "none", "promise only a small total violation, and exceeded limits in more runs than delta allows: "
         'colb, "colb, paper". Of these colb is over least, by 0.010 a round on average.'),
        ("2 of 6", "broken", "promise nothing about the guardrails, and broke them: ucb1, mine. "
         "Of these ucb1 is over least, by 0.300 a round on average."),
    ]  # fmt: skip


def test_standings_have_no_negative_zero() -> None:
    assert words.spanned(Interval(-1e-4, -2e-4, 0.0)) == "0.000 ± 0.000"
    assert words.spanned(Interval(-0.002, -0.003, -0.001)) == "-0.002 ± 0.001"
    assert story.percents(-1e-6, 1) == f"0.0{story.GLUE}%"


def test_the_gain_is_what_the_baseline_loses_more_in_the_same_rounds() -> None:
    safe = sf.SafeStrategy([0, 1], [0.1])
    losses = sf.losses.Fixed(np.random.default_rng(1).random((HORIZON, 2)))
    found = shown({"a": [0.25, 0.75], "b": [0, 1], "c": [1, 0]}, sf.costs.Fixed([[0.3, 0.1]]), [0.5], losses, safe)
    given = losses.array
    a, b, c = found.policies
    assert a.gain is not None
    assert a.gain.value == pytest.approx((given[:, 1] - given @ [0.25, 0.75]).mean())
    assert a.baseline == pytest.approx(given[:, 1].mean())
    assert story.of_gain(b).startswith("lost as much as the baseline")
    share = abs(given[:, 0].mean() / given[:, 1].mean() - 1)
    told = story.of_gain(c).replace(story.GLUE, " ")
    assert f"{100 * share:.0f} %" in told or f"{100 * share:.2g} %" in told
    assert ("less" if given[:, 0].mean() < given[:, 1].mean() else "more") in story.of_gain(c)
    without = shown({"a": [0.25, 0.75]}, sf.costs.Fixed([[0.3, 0.1]]), [0.5], losses)
    assert only(without).gain is None
    assert story.of_gain(only(without)) == ""


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [(0.40119, 0.4, "0.4012"), (0.399999, 0.4, "0.399999"), (0.4, 0.4, "0.4"), (0.84379, 0.4, "0.844"), (0, 0, "0")],
)
def test_rounding_never_moves_an_average_onto_its_limit(value: float, limit: float, text: str) -> None:
    assert story.beside(value, limit) == text


def test_average_costs_stand_beside_their_limits() -> None:
    found = shown({"p": [0.51, 0.49]}, TestHow.costs, [0.5, 0.5], guardrails=("spend", "refusals"))
    cell = dict(zip(words.COLUMNS, words.cells(only(found), found), strict=True))["average cost / limit"]
    assert cell.replace("\N{NO-BREAK SPACE}", " ").splitlines() == ["spend 0.508 / 0.5", "refusals 0.2 / 0.5"]
    many = shown({"p": [0.51, 0.49]}, sf.costs.Fixed([[0.9, 0.1]] + [[0.2, 0.2]] * 9), [0.5] * 10)
    assert len(story.averages(only(many), many)) == 3
    assert story.averages(only(many), many, 1)[0].startswith("cost 0 ")


class TestRegretBelowZero:
    costs = sf.costs.Fixed([[0.9, 0.1]])

    def test_of_who_breaks_a_limit(self) -> None:
        losses = sf.losses.Fixed([0.1, 0.9])
        found = shown({"a, b": [1, 0], "safe": [0, 1]}, self.costs, [0.5], losses)
        told = story.below_zero(found)
        assert told.endswith('It is below 0 for "a, b", which went over the limits.')

    def test_of_who_follows_the_losses(self) -> None:
        losses = sf.losses.Switching([[0.0, 1.0], [1.0, 0.0]], at=30)
        found = shown({"p": [[1, 0]] * 30 + [[0, 1]] * 30}, self.costs, [1.0], losses)
        assert story.below_zero(found).endswith("It is below 0 for p, which followed changes of the losses.")

    def test_of_who_follows_the_losses_and_is_a_little_over(self) -> None:
        losses = sf.losses.Switching([[0.0, 1.0], [1.0, 0.0]], at=30)
        found = shown({"p": [[0.51, 0.49]] * 30 + [[0, 1]] * 30}, self.costs, [0.5], losses)
        words = "It is below 0 for p, which followed changes of the losses and went over the limits by little."
        assert story.below_zero(found).endswith(words)

    def test_of_who_was_lucky(self) -> None:
        losses = sf.losses.Fixed([[0.0, 1.0]] * 30 + [[1.0, 0.0]] * 30)
        found = shown({"p": [[1, 0]] * 30 + [[0, 1]] * 30}, self.costs, [1.0], losses)
        assert story.below_zero(found).endswith("for p, which happened to play arms whose losses came out low.")

    def test_is_not_explained_where_it_does_not_occur(self) -> None:
        losses = sf.losses.Fixed([0.1, 0.9])
        assert story.below_zero(shown({"p": [0, 1]}, self.costs, [0.5], losses)) == ""


def test_changes_of_the_world_are_known() -> None:
    def of(id: str) -> ScenarioResult:
        scenario = sf.scenarios.make(id, horizon=300)
        return results(sf.simulate(scenario, {"ucb1": sf.UCB1}, 1, [300], workers=1))[0]

    assert changes(of("switching-v1")) == [(100, "losses"), (200, "losses")]
    assert changes(of("jump-v1")) == [(150, "costs")]
    assert drifts(of("drifting-v1")) == ["losses drift"]
    assert drifts(of("drifting-costs-v1")) == ["costs drift"]
    assert drifts(of("adaptive-v1")) == ["losses react to what is played"]
    plain = of("stochastic-v1")
    assert (changes(plain), drifts(plain), figures.change_note(plain)) == ([], [], "")
    assert figures.change_note(of("jump-v1")) == " Dotted lines: costs change after round 150."
    assert figures.change_note(of("switching-v1")) == " Dotted lines: losses change after rounds 100 and 200."


@pytest.fixture(scope="module")
def free() -> ScenarioResult:
    """A policy that keeps the guardrail, one that nearly does, and one that does not look, in a world that changes."""
    safe = sf.SafeStrategy([0, 1], [0.1])
    losses = sf.losses.Switching([[0.1, 0.6], [0.2, 0.6]], at=30)
    plays = {"kept": [0.45, 0.55], "close": [0.51, 0.49], "free": [1, 0]}
    return shown(plays, sf.costs.Fixed([[0.9, 0.1]]), [0.5], losses, safe)


def test_an_unguarded_policy_does_not_flatten_the_others(free: ScenarioResult) -> None:
    names = [[policy.name for policy in group] for group in figures.scales(free, figures.series_of("violation"))]
    assert names == [["kept", "close"], ["kept", "close", "free"]]
    with styled():
        look = Look(["kept", "close", "free"])
        above, below = figures.over_rounds(free, look, "violation").axes
        assert above.get_ylim()[1] < 0.1 * below.get_ylim()[1]
        assert len(figures.plane(free, look).axes) == 2
        assert "another scale" in next(one for one in figures.figures(free, look) if one.name == "violation").caption
    calm = shown({"a": [0.0, 1.0], "b": [0.1, 0.9]}, sf.costs.Fixed([[0.9, 0.1]]), [0.5])
    assert len(figures.scales(calm, figures.series_of("regret"))) == 1


def test_figures_mark_changes_and_limits(free: ScenarioResult) -> None:
    def marked(figure: Any, gid: str) -> list[Any]:
        return [[line for line in axes.lines if line.get_gid() == gid] for axes in figure.axes]

    with styled():
        look = Look(["kept", "close", "free"])
        for figure in (figures.over_rounds(free, look, "regret"), figures.costs(free, look)):
            assert all([line.get_xdata()[0] for line in lines] == [30] for lines in marked(figure, "change"))
        limits = marked(figures.costs(free, look), "limit")
        assert [[line.get_ydata()[0] for line in limit] for limit in limits] == [[0.5], [0.5]]
        calm = shown({"calm": [0.1, 0.9]}, sf.costs.Fixed([[0.3, 0.1]]), [0.5])
        (axes,) = figures.costs(calm, Look(["calm"])).axes
        assert axes.get_ylim()[1] > 0.5  # the limit is in sight, however far below it one stays
        assert sum(len(lines) for lines in marked(figures.allocation(free), "change")) == 3  # one a policy


def test_words_beside_a_change_stand_where_no_curve_is() -> None:
    with styled():
        for course, top in (([0.9, 0.8, 0.1], False), ([0.1, 0.2, 0.9], True)):
            _, axes = figures.canvas(1)
            axes.set_ylim(0, 1)
            policy = SimpleNamespace(series=lambda column, y=course: np.array([0, 30, 60] if column == "round" else y))
            still = SimpleNamespace(series=lambda column: np.array([0, 30, 60]) if column == "round" else np.zeros(3))
            found = [Change(30, "losses")]
            assert figures.is_free_above(axes, [policy, still], "regret", found) == top  # type: ignore[list-item]


def drawn_costs(axes: Any) -> int:
    """How many courses of costs have a line in a pair of axes."""
    return sum(patch.get_gid() == "cost" for patch in axes.patches)


def test_costs_close_to_the_limit_have_a_scale_of_their_own_and_the_first_rounds_can_be_seen() -> None:
    """One climbs from far below to just below the limit, one stays just above it, and one does not look."""
    plays = {"kept": [[0.0, 1.0]] + [[0.49, 0.51]] * 59, "close": [0.51, 0.49], "free": [1, 0]}
    found = shown(plays, sf.costs.Fixed([[0.9, 0.1]]), [0.5], checkpoints=[1, 3, 10, 30, 60])
    with styled():
        figure = figures.costs(found, Look(list(plays)))
        above, below = figure.axes
        assert (drawn_costs(above), drawn_costs(below)) == (2, 3)
        low, high = above.get_ylim()
        assert high - low < 0.05  # the costs are 0.492 and 0.508
        assert low < 0.492 < 0.5 < 0.508 < high
        assert below.get_ylim()[0] < 0.1 < 0.9 < below.get_ylim()[1]  # with the first round, and the unguarded one
        assert all(axes.get_xscale() == "log" and axes.get_xlim()[0] == 1 for axes in figure.axes)
    caption = next(one for one in figures.figures(found, Look(list(plays))) if one.name == "costs").caption
    assert "Above: policies that kept the guardrails, or nearly, close to the limit." in caption
    assert "logarithmic" in caption


@pytest.mark.parametrize("many", [False, True])
def test_a_phone_shows_the_legend_of_wide_figures(many: bool) -> None:
    """It scrolls wide figures sideways, and begins at the left."""
    names = [f"a policy whose name is long {i}" for i in range(20)] if many else ["kept", "close"]
    found = shown({name: [0.4, 0.5, 0.1] for name in names}, sf.costs.Fixed([[0.9, 0.1, 0.2]] * 3), [0.5] * 3)
    with styled():
        for figure in (figures.costs(found, Look(names)), figures.allocation(found)):
            figure.draw_without_rendering()
            (legend,) = figure.legends
            assert figure.get_figwidth() > 6  # wide
            assert legend.get_window_extent().x1 <= 5.6 * figure.dpi
            assert len(legend.get_texts()) >= 3


def test_the_safe_weight_has_a_logarithmic_axis_of_rounds() -> None:
    scenario = sf.scenarios.make("three-arms-v1", horizon=600)
    (found,) = results(sf.simulate(scenario, {"solb": sf.SOLB}, 2, workers=1))
    with styled():
        (axes,) = figures.safe_weight(found, Look(["solb"])).axes
        assert axes.get_xscale() == "log"
        assert axes.get_xlim() == (found.rounds[0], 600)


def test_no_mark_hides_another_in_the_plane(free: ScenarioResult) -> None:
    with styled():
        figure = figures.plane(free, Look(["kept", "close", "free"]))
    marks = [line for axes in figure.axes for line in axes.lines if line.get_marker() not in ("None", None, "")]
    assert len(marks) == 5
    assert all(line.get_markerfacecolor() == "none" for line in marks)
    assert len({line.get_marker() for line in marks}) == 3
    every = [{text.get_text() for text in axes.texts} for axes in figure.axes]
    assert every == [{"kept", "close"}, {"kept", "close", "free"}]  # names beside all marks, in both panels


def test_no_mark_hides_another_in_the_triangle() -> None:
    """At one place they lie one within the other: all but the smallest are hollow."""
    *hollow, last = MARKS.values()
    assert all(fill == "none" for _, fill, _ in hollow)
    sizes = [size for _, _, size in [*hollow, last]]
    assert all(one >= other + 2 for one, other in zip(sizes, sizes[1:]))


# Colours, as people see them who do not see all of them (Machado et al. 2009, severity 1)
SEEN = {
    "all colours": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
}  # fmt: skip


def lab(colour: str, eye: Any) -> Any:
    """CIE L*a*b* of a colour, for a kind of eye."""
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(
        eye @ linear, 0, 1
    )
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eye", SEEN)
def test_neighbouring_arms_can_be_told_apart(eye: str) -> None:
    seen = [lab(colour, SEEN[eye]) for colour in ARMS]
    assert min(np.linalg.norm(a - b) for a, b in zip(seen, seen[1:])) > 30
    shades = [lab("#{:02x}{:02x}{:02x}".format(*(int(255 * x) for x in c)), SEEN[eye]) for c in CIVIDIS]
    assert min(np.linalg.norm(a - b) for a, b in zip(shades, shades[1:])) < 30  # the control: a scale for eight arms


CIVIDIS = [(0.0, 0.157, 0.355), (0.186, 0.249, 0.424), (0.316, 0.344, 0.426), (0.426, 0.438, 0.449),
           (0.538, 0.531, 0.471), (0.660, 0.631, 0.456), (0.787, 0.737, 0.410), (0.921, 0.854, 0.322)]  # fmt: skip


def test_colour_and_dashes_tell_every_policy_of_a_league_apart() -> None:
    names = [f"policy {i}" for i in range(23)]
    look = Look(names, best=["policy 9"])
    assert len({(look.colour[name], look.dashes[name]) for name in names}) == 23
    assert len({(look.key(name)["colour"], look.key(name)["dashes"]) for name in names}) == 23
    assert sum(map(look.stands_out, names)) == len(COLOURS)


@pytest.mark.parametrize(
    ("preset", "plans"), [("led", True), ("practical", True), ("guaranteed", False), ("paper", False)]
)
def test_what_the_triangle_says_is_played_is_what_is_played(preset: str, plans: bool) -> None:
    scenario = sf.scenarios.make("three-arms-v1", horizon=2_000)
    policies = {"solb": lambda problem, seed: sf.SOLB(problem, seed, preset=preset, **options)}
    options: dict[str, Any] = {"learning_rate": 0.3} if preset == "paper" else {}
    (found,) = results(sf.simulate(scenario, policies, 1, [10, 300, 2_000], workers=1))
    chosen = subject(found)
    assert chosen is not None
    assert several_plans(found, chosen) == plans
    for row in chosen.first:
        drawn = points(found, row)
        np.testing.assert_array_equal(drawn[PLAYED], row["strategy"])
        np.testing.assert_array_equal(drawn[BEST], row["benchmark"])
        other = drawn.get(REST, drawn[PROPOSAL])  # the other end of the dashed line
        mixed = row["safe_weight"] * drawn[SAFE] + (1 - row["safe_weight"]) * other
        np.testing.assert_allclose(mixed, row["strategy"], atol=1e-6)
        np.testing.assert_allclose([share.sum() for share in drawn.values()], 1.0)
    caption = next(one for one in figures.figures(found, Look(["solb"])) if one.name == "simplex").caption
    assert ("several plans" in caption) == plans


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    policies: dict[str, Any] = {
        "solb": lambda problem, seed: sf.SOLB(problem, seed, preset="paper", learning_rate=0.3),
        "free": lambda problem, seed: sf.LogBarrier(problem, seed, learning_rate=0.3),
    }
    run = sf.simulate(sf.scenarios.make("llm-routing-v1", horizon=500), policies, 2, workers=1)
    return write_report(run, tmp_path_factory.mktemp("page"), "again").read_text(encoding="utf-8")


class TestThePage:
    def test_the_verdict_is_at_the_top(self, page: str) -> None:
        first = page.index('<ul class="story">')
        assert first < page.index("Made by Surefoot") < page.index("<table") < page.index("<img")
        told = re.sub("<[^>]+>", "", page[first : page.index("</ul>", first)])
        assert "solb kept all 3 guardrails in every round of all 2 runs; lost" in told
        assert "free broke" in told
        assert "The baseline plays in-house, which is known to be safe." in page

    def test_tables_are_cards_on_a_phone(self, page: str) -> None:
        assert re.search(r"max-width: 40rem\) \{ \.cards", page)
        cells = re.findall(r'<td role="cell" data-head="([^"]+)"', page)
        assert cells[: len(words.COLUMNS)] == list(words.COLUMNS)

    def test_it_has_dark_colours_and_white_paper_under_the_figures(self, page: str) -> None:
        assert re.search(
            r"prefers-color-scheme: dark\) \{ :root \{.*?figure img \{[^}]*background: #ffffff", page, re.S
        )

    def test_regret_below_zero_is_explained(self, page: str) -> None:
        assert "It is below 0 for" in page

    def test_several_scenarios_have_a_verdict_each_and_one_in_all(self, tmp_path: Path) -> None:
        runs = [
            sf.simulate(sf.scenarios.make(id, horizon=200), {"ucb1": sf.UCB1, "safe": sf.AlwaysSafe}, 5, workers=1)
            for id in ("three-arms-v1", "jump-v1")
        ]
        page = write_report(sf.Run.joined(runs), tmp_path).read_text()
        assert page.count('<ul class="story">') == 3
        both = results(sf.Run.joined(runs))
        lines = story.overall(both, standings(both))
        assert [(line.name, line.how) for line in lines] == [("1 of 2", "kept"), ("1 of 2", "broken")]
        began = "kept the guardrails as often as delta requires: safe. Of these safe has the least regret"
        assert lines[0].text.startswith(began)
        assert lines[0].text.endswith("and lost about as much as the baseline.")
        one = write_report(sf.Run.joined(runs), tmp_path / "one", only=["jump-v1"]).read_text()
        assert one.count('<ul class="story">') == 1  # of the scenario alone
        assert "The baseline plays arm 1, which is known to be safe. Mean costs change in this scenario" in one
        assert "The true costs, unknown to the policies: the largest of each, as they change" in one
        assert page.count("Mean costs change") == 1  # not in three-arms-v1
        two = write_report(sf.Run.joined(runs), tmp_path / "two", only=["jump-v1", "three-arms-v1"]).read_text()
        assert two.count('<ul class="story">') == 3

    def test_columns_that_are_empty_are_left_out(self, page: str, tmp_path: Path) -> None:
        scenario = sf.Scenario("plain-v1", sf.Problem(2, [], 100), sf.losses.Bernoulli([0.2, 0.8]))
        plain = write_report(sf.simulate(scenario, {"free": sf.UCB1}, 1, workers=1), tmp_path).read_text()
        assert "gain over the baseline" in re.findall(r'data-head="([^"]+)"', page)
        assert not {"gain over the baseline", "average cost / limit"} & set(re.findall(r'data-head="([^"]+)"', plain))


def test_many_policies_share_sentences() -> None:
    plays = {**{f"kept {i}": [0, 1] for i in range(6)}, "a, b": [0.51, 0.49], "free": [1, 0], "more": [1, 0]}
    safe = sf.SafeStrategy([0, 1], [0.1])
    found = shown(plays, sf.costs.Fixed([[0.9, 0.1]]), [0.5], sf.losses.Fixed([0.1, 0.4]), safe)
    lines = story.story(found)
    assert [(line.name, line.how) for line in lines] == [("6 of 9", "kept"), ("1 of 9", "close"), ("2 of 9", "broken")]
    assert lines[1].text.startswith('nearly kept them: "a, b". Of these "a, b" lost least: ')
    began = "broke them: free, more. Of these free lost least: 75 % less than the baseline"
    assert lines[2].text.replace(story.GLUE, " ").startswith(began)


def test_drawings_are_made_smaller_and_say_the_same(tmp_path: Path) -> None:
    told = (
        '<svg><!-- x -->\n<text x="10.123456" transform="rotate(-0 1 2)">no  violation: 0.123456</text>\n'
        '<path d="M 1.2345 2\nL 3 4.5678"/></svg>'
    )
    small = smaller(told)
    assert small == '<svg><text x="10.1">no  violation: 0.123456</text><path d="M 1.2 2 L 3 4.5"/></svg>'
