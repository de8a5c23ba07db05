"""What a policy remembers: saved and loaded, copied, shared between threads, and what it does when costs change."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import math
import pickle
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import surefoot as sf
from surefoot.kernels.betting import RESERVE
from surefoot.kernels.costs import observe, unknown_costs
from surefoot.policies import base
from surefoot.policies.saving import DIGEST, MAGIC, VERSION, sealed
from surefoot.rules import Floats
from surefoot.testing import PolicyContract

PROBLEM = sf.Problem(3, [0.5], 200, 0.1, sf.SafeStrategy([0, 0, 1], [0.2]))
OLD = [
    case
    for version in (1, 2)
    for case in json.loads((Path(__file__).parent / "old_states" / f"version_{version}.json").read_text())
]

MAKERS: dict[str, Callable[[], sf.Policy[Any]]] = {
    "solb": lambda: sf.SOLB(PROBLEM, 7),
    "solb, paper": lambda: sf.SOLB(PROBLEM, 7, preset="paper", learning_rate="doubling"),
    "colb": lambda: sf.COLB(PROBLEM, 7),
    "opb": lambda: sf.OPB(PROBLEM, 7, confidence="eb-mixture"),
    "thompson": lambda: sf.ThompsonSampling(PROBLEM, 7),
}


def feedback(t: int, arm: int) -> tuple[float, list[float]]:
    """The loss and the cost of an arm in round t. The old states were made with the same."""
    return (37 * t + 23 * arm) % 101 / 100, [float((7 * t + 3 * arm) % 10 < 9 - 4 * arm)]


def play(policy: sf.Policy[Any], rounds: int) -> list[Any]:
    """Some rounds: each decision, and what is played after its feedback."""
    seen = []
    for _ in range(rounds):
        decision = policy.ask()
        policy.tell(decision, *feedback(policy.round, decision.arm))
        seen.append([decision.arm, decision.propensity, policy.strategy.tolist(), policy.safe_weight])
    return seen


def played(name: str, rounds: int = 40) -> sf.Policy[Any]:
    policy = MAKERS[name]()
    play(policy, rounds)
    return policy


def told(case: dict[str, Any]) -> str:
    saved = case["saved"]
    return f"{saved['policy']} {saved['version']} {saved['options'].get('learning_rate', '')}"


# Older versions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in OLD if case["next"]], ids=told)
def test_old_states_continue_exactly(case: dict[str, Any]) -> None:
    """Saved after 40 rounds by the release of that version, which then played the next 10."""
    saved = case["saved"]
    policy = getattr(sf, saved["policy"]).from_dict(saved)
    again = type(policy).from_dict(json.loads(json.dumps(policy.to_dict())))
    assert policy.to_dict()["version"] == VERSION
    assert play(policy, 10) == case["next"]
    assert play(again, 10) == case["next"]


@pytest.mark.parametrize("case", [case for case in OLD if not case["next"]], ids=told)
def test_old_states_with_other_leaves_are_refused_in_one_sentence(case: dict[str, Any]) -> None:
    saved = case["saved"]
    message = (
        rf"^version must be {VERSION} for this policy and its options, whose state has other leaves now, got [12]$"
    )
    with pytest.raises(sf.RuleError, match=message):
        getattr(sf, saved["policy"]).from_dict(saved)


def test_old_states_are_checked_like_new_ones() -> None:
    saved = next(case["saved"] for case in OLD if case["saved"]["policy"] == "SOLB")
    for field, value, message in (
        ("round", 41, r"state.known.counts must sum to round = 41, got a sum of 40"),
        ("version", VERSION, r"data must have the keys .*digest"),
        ("generator", {}, r"generator must be the state of a PCG64, got"),
    ):
        with pytest.raises(sf.RuleError, match=message):
            sf.SOLB.from_dict({**saved, field: value})


def test_an_old_policy_that_had_given_up_still_plays_safe() -> None:
    saved = next(case["saved"] for case in OLD if case["saved"]["policy"] == "SafeExp3")
    assert sf.SafeExp3.from_dict(saved).safe_weight < 1.0
    gave_up = sf.SafeExp3.from_dict(edited(saved, "state/safe_weight", lambda _: [1.0]))
    assert gave_up.strategy.tolist() == [0, 0, 1]
    with pytest.raises(sf.RuleError, match=r"^state\.safe_weight.* must be in \[0, 1\], got 1.5"):
        sf.SafeExp3.from_dict(edited(saved, "state/safe_weight", lambda _: [1.5]))


def test_states_without_numbers_have_asked_once_a_round() -> None:
    """Version 3 did not number decisions at first."""
    policy = played("solb")
    before = sealed({name: value for name, value in policy.to_dict().items() if name not in ("asked", "open")})
    assert sf.SOLB.from_dict(before).to_dict() == policy.to_dict()
    for saved in (case["saved"] for case in OLD if case["next"]):
        assert getattr(sf, saved["policy"]).from_dict(saved).ask().number == saved["round"]


# Bytes and dictionaries ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_bytes_and_dictionaries_say_the_same(name: str) -> None:
    policy = played(name)
    by_bytes = type(policy).from_bytes(policy.to_bytes())
    by_dict = type(policy).from_dict(json.loads(json.dumps(policy.to_dict())))
    assert by_bytes.to_dict() == by_dict.to_dict() == policy.to_dict()
    assert by_bytes.to_bytes() == by_dict.to_bytes() == policy.to_bytes()
    assert play(by_bytes, 20) == play(by_dict, 20) == play(policy, 20)


def test_altered_bytes_are_refused() -> None:
    data = played("solb").to_bytes()
    altered: list[Any] = [b"", MAGIC, data[:-1], data[1:], data + b"\0", data[: len(data) // 2], "text", None, 7]
    for place in range(0, len(data), 37):
        altered.append(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    for wrong in altered:
        with pytest.raises(sf.RuleError, match=r"^data must be the bytes that to_bytes returned, got"):
            sf.SOLB.from_bytes(wrong)
    assert sf.SOLB.from_bytes(memoryview(data)).to_bytes() == data
    with pytest.raises(sf.RuleError, match=r"^policy must be 'COLB', got 'SOLB'"):
        sf.COLB.from_bytes(data)


def test_bytes_with_a_digest_of_their_own_are_still_checked() -> None:
    policy = played("solb, paper")
    whole, numbers = policy.to_bytes()[:-DIGEST], policy._draft.saved
    middle = len(whole) - numbers[1].nbytes

    def refused(forged: bytes, message: str) -> None:
        with pytest.raises(sf.RuleError, match=message):
            sf.SOLB.from_bytes(forged + hashlib.blake2b(forged, digest_size=DIGEST).digest())

    refused(whole[:-8], "^data must hold .* numbers, got")
    refused(
        whole[:middle] + np.int64(4).tobytes() + whole[middle + 8 :], "^data must have the sizes of its problem, got"
    )
    for bad in (np.nan, np.inf, -7.0):
        refused(whole[: middle - 8] + np.float64(bad).tobytes() + whole[middle:], r"^state\..* must .*, got")


def edited(data: dict[str, Any], path: str, change: Callable[[Any], Any]) -> dict[str, Any]:
    """A copy of saved data, with the numbers at a path changed."""
    data = copy.deepcopy(data)
    *above, name = path.split("/")
    part = data
    for step in above:
        part = part[step]
    part[name] = change(part[name])
    return data


@pytest.mark.parametrize("name", ["solb", "colb", "opb"])
@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("problem/delta", lambda delta: delta * 2),
        ("state/known/upper", lambda upper: [[0.999 * upper[0][0], *upper[0][1:]]]),
        ("state/known/means", lambda means: [[mean * 0.999 for mean in means[0]]]),
    ],
)
def test_edited_states_are_refused(name: str, path: str, change: Callable[[Any], Any]) -> None:
    """The digest alone refuses them: the control, sealed again, is accepted."""
    policy = played(name)
    wrong = edited(policy.to_dict(), path, change)
    assert wrong != policy.to_dict()
    with pytest.raises(sf.RuleError, match=r"^digest must be that of the saved policy, which was changed, got"):
        type(policy).from_dict(wrong)
    assert type(policy).from_dict(sealed(wrong)).round == policy.round


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("asked", 41, r"asked must be at most 40, rounds and open decisions, got 41"),
        ("asked", -1, r"asked must be a whole number >= 0, got -1"),
        (
            "open",
            [[40, 0]],
            r"open must have rising numbers below asked = 40, each with an arm below 3, got \[\[40, 0\]\]",
        ),
        ("open", [[3, 0], [3, 1]], "open must have rising numbers"),
        ("open", [[4, 0], [3, 0]], "open must have rising numbers"),
        ("open", [[3, 3]], "open must have rising numbers below asked = 40, each with an arm below 3, got"),
        ("open", [[0.5, 1]], r"open\[0, 0\] must be a whole number >= 0, got 0.5"),
        ("open", [3], "open must be an array of shape any number x 2, got"),
        ("open", None, "open must be an array of numbers, got None"),
    ],
)
def test_open_decisions_that_cannot_be_are_refused(name: str, value: Any, message: str) -> None:
    data = played("solb").to_dict()
    with pytest.raises(sf.RuleError, match=f"^{message}"):
        sf.SOLB.from_dict(sealed({**data, name: value}))
    assert sf.SOLB.from_dict(sealed({**data, "open": [[3, 0], [4, 2]]})).round == 40  # the control


def as_others_write(value: Any) -> Any:
    """Data as a JSON library writes them that has one kind of number and another order of names."""
    if isinstance(value, dict):
        return {name: as_others_write(inner) for name, inner in reversed(value.items())}
    if isinstance(value, list):
        return [as_others_write(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@pytest.mark.parametrize("name", MAKERS)
def test_other_json_libraries_change_nothing(name: str) -> None:
    policy = played(name)
    assert type(policy).from_dict(as_others_write(policy.to_dict())).to_dict() == policy.to_dict()


def whole_numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from whole_numbers(inner)
    elif isinstance(value, int):
        yield value


@pytest.mark.parametrize("name", MAKERS)
def test_every_whole_number_fits_64_bits(name: str) -> None:
    """Some JSON libraries refuse others. The control is a state of version 2, whose generator has them."""
    assert all(-(2**63) <= number < 2**63 for number in whole_numbers(played(name).to_dict()))
    assert max(whole_numbers(OLD[-1]["saved"])) >= 2**63


# Seeds --------------------------------------------------------------------------------------------------------------


def test_reseeding_changes_the_draws_and_nothing_else() -> None:
    policy = played("solb")
    data = policy.to_dict()

    def draws(seed: int | None, reseeded: bool = True) -> list[int]:
        restored = sf.SOLB.from_dict(data)
        if reseeded:
            restored.reseed(seed)
        after = restored.to_dict()
        assert {**after, "generator": None, "digest": None} == {**data, "generator": None, "digest": None}
        return [restored.ask().arm for _ in range(60)]

    kept = draws(None, reseeded=False)
    assert kept == draws(None, reseeded=False)
    assert draws(1) == draws(1)
    assert len({tuple(arms) for arms in (kept, draws(1), draws(2), draws(None))}) == 4
    with pytest.raises(sf.RuleError, match="seed must be a whole number >= 0, got -1"):
        policy.reseed(-1)
    assert policy.to_dict() == data


MEANS, COSTS = [0.9, 0.1], np.array([0.2, 0.9])
UNSALTED = sf.Problem(2, [0.5], 600, 0.05, sf.SafeStrategy([1, 0], [0.2]))


def unsafe_runs(n: int) -> int:
    """Runs with an unsafe round, in worlds that draw costs from the generator that the policy's seed makes.

    The costly arm is drawn when the policy's number is large, and costs nothing when the world's number is.
    """
    unsafe = 0
    for seed in range(n):
        policy, rng, worst = sf.SOLB(UNSALTED, seed), np.random.default_rng(seed), 0.0
        for _ in range(600):
            worst = max(worst, float(policy.strategy @ COSTS))
            decision = policy.ask()
            policy.tell(decision, MEANS[decision.arm], [float(rng.random() < COSTS[decision.arm])])
        unsafe += worst > 0.5 + 1e-12
    return unsafe


@pytest.mark.filterwarnings("ignore::surefoot.policies.base.Contradiction")
def test_a_world_with_the_seed_of_the_policy_is_independent_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is unsafe with a probability of at most delta = 0.05. The false-alarm rate for 60 runs is below 1e-3.

    The control has no salt: the policy's numbers are those of the world.
    """
    assert unsafe_runs(60) <= int(binom.isf(1e-3, 60, 0.05))
    monkeypatch.setattr(base, "generator", lambda seed: np.random.Generator(np.random.PCG64(seed)))
    assert unsafe_runs(20) >= 18


# Copies and threads -------------------------------------------------------------------------------------------------

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda policy: pickle.loads(pickle.dumps(policy)),
}


def shares(policy: sf.Policy[Any], other: sf.Policy[Any]) -> bool:
    """Whether something that is done to one of them changes the other."""
    before = policy.to_dict()
    decision = other.ask()
    asked = policy.to_dict() != before
    other.lost(decision)
    play(other, 5)
    return asked or policy.to_dict() != before or policy._lock is other._lock


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", MAKERS)
def test_a_copy_is_the_same_policy_and_shares_nothing(name: str, how: str) -> None:
    policy = played(name)
    other = COPIES[how](policy)
    assert type(other) is type(policy)
    assert other.to_dict() == policy.to_dict()
    assert not shares(policy, other)
    assert not shares(other, policy)
    again = COPIES[how](policy)
    assert play(again, 20) == play(policy, 20)


def test_what_python_would_copy_by_itself_shares_everything() -> None:
    """The control of the test above."""
    policy = played("solb")
    other = object.__new__(sf.SOLB)
    other.__dict__.update(policy.__dict__)
    assert shares(policy, other)


THREADS, ROUNDS = 16, 2000


def shared(policy: Any, rounds: int = ROUNDS) -> Any:
    """A policy that many threads have asked and told at the same time."""

    def work(first: int) -> None:
        for t in range(rounds):
            decision = policy.ask()[:3]  # without its number, as threads overtake each other
            policy.tell(decision, *feedback(first + t, decision[0]))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(work, first) for first in range(THREADS)]:
                done.result()
    finally:
        sys.setswitchinterval(before)
    return policy


def is_whole(policy: sf.Policy[Any]) -> bool:
    """Whether every round was counted, and the state can be loaded."""
    try:
        return type(policy).from_dict(policy.to_dict()).round == THREADS * ROUNDS
    except sf.RuleError:
        return False


@pytest.mark.filterwarnings("ignore::surefoot.policies.base.Contradiction")
def test_threads_may_share_a_policy() -> None:
    endless = sf.Problem(3, [0.5], None, 0.1, PROBLEM.safe)
    assert is_whole(shared(sf.SOLB(endless, 7)))


class Watched(sf.SOLB):
    """Counts how many threads would learn at the same time, and gives others the chance to."""

    inside = most = 0

    def _learn(self, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0)
        self.inside -= 1


@pytest.mark.filterwarnings("ignore::surefoot.policies.base.Contradiction")
def test_one_thread_learns_at_a_time() -> None:
    """The control has no lock. (The test above is none: without a lock, 9 of 10 times nothing is lost.)"""
    locked, unlocked = (Watched(sf.Problem(3, [0.5], None, 0.1, PROBLEM.safe), 7) for _ in range(2))
    unlocked._lock = contextlib.nullcontext()  # type: ignore[assignment]
    assert shared(locked, 100).most == 1
    assert shared(unlocked, 100).most > 1


# Late and lost feedback ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_lost_feedback_is_the_worst_case(name: str) -> None:
    policy = played(name)
    twin, other, decision = copy.copy(policy), copy.copy(policy), policy.ask()
    twin.ask()
    other.ask()
    policy.lost(decision)
    twin.tell(decision, 1.0, [1.0])
    other.tell(decision, 1.0, [0.0])
    assert policy.to_dict() == twin.to_dict()
    assert policy.to_dict() != other.to_dict() or name == "thompson"  # which does not look at costs


def test_feedback_that_breaks_the_order_is_refused_in_one_sentence() -> None:
    policy = sf.UCB1(sf.Problem(3, [], 100))  # which asks for the same arm until it is told
    first, second, third = (policy.ask() for _ in range(3))
    policy.tell(first, 0.5)
    before = policy.to_dict()
    for decision, message in {
        first: "be told only once (sf.Live notices repeated feedback), got number 0, told already",
        third: "be the oldest open one of its arm, and number 1 of arm 0 is still open: tell that first or settle it "
        "with lost (sf.Live keeps the order for you), got number 2",
        third._replace(arm=1): "be one that this policy has made (sf.Live knows which are), got number 2 of arm 1",
        third._replace(number=3): "be one that this policy has made (sf.Live knows which are), got number 3 of arm 0",
    }.items():
        for call in (policy.lost, lambda one: policy.tell(one, 0.5)):
            with pytest.raises(sf.RuleError, match=f"^{re.escape('decision must ' + message)}$"):
                call(decision)
    assert policy.to_dict() == before
    policy.lost(second)
    policy.tell(third, 0.5)
    assert policy.round == 3


def test_rounds_in_blocks_have_numbers_too() -> None:
    policy, block = played("solb"), (np.zeros((5, 3)), np.zeros((5, 1, 3)), np.empty((5, 3)), np.empty(5))
    policy.live(*block)
    assert policy.ask().number == 45
    with pytest.raises(sf.RuleError, match="told already"):
        policy.tell((0, 0.5, 0.5, 43), 0.5, [0.5])


def test_a_block_does_not_overtake_open_decisions() -> None:
    policy, block = played("solb"), (np.zeros((5, 3)), np.zeros((5, 1, 3)), np.empty((5, 3)), np.empty(5))
    open_one = policy.ask()
    before = policy.to_bytes()
    with pytest.raises(
        sf.RuleError, match=r"live must be called when no decision waits for feedback.* got a call with 1 open"
    ):
        policy.live(*block)
    assert policy.to_bytes() == before
    policy.tell(open_one, 0.5, [0.5])
    policy.live(*block)


def test_decisions_without_a_number_are_not_counted() -> None:
    policy = played("solb")
    policy.tell((0, 0.5), 0.5, [0.5])
    assert policy.round == 41
    assert policy.ask().number == 40
    assert sf.SOLB.from_bytes(policy.to_bytes()).to_dict() == policy.to_dict()


WEIGHING: dict[str, dict[str, Any]] = {
    "guaranteed": {"preset": "guaranteed"},
    "doubling": {"preset": "paper", "learning_rate": "doubling"},
    "weighted": {"preset": "paper", "learning_rate": 0.2, "estimator": "weighted"},
}


@pytest.mark.parametrize("options", WEIGHING.values(), ids=WEIGHING)
def test_the_weight_of_the_draw_travels_with_the_decision(options: dict[str, Any]) -> None:
    """Late feedback is as good as immediate when nothing happened between; the control tells another weight."""
    problem = sf.Problem(3, [0.5], 2000, 0.1, PROBLEM.safe)
    policy = sf.SOLB(problem, 7, **options)
    play(policy, 60)
    late, wrong = copy.copy(policy), copy.copy(policy)
    decision = policy.ask()
    policy.tell(decision, 1.0, [0.0])
    kept = late.ask()
    late.ask()
    late.ask()
    late.tell(json.loads(json.dumps(kept)), 1.0, [0.0])
    wrong.ask()
    wrong.tell(decision._replace(proposal_weight=decision.proposal_weight / 2), 1.0, [0.0])
    assert kept == decision
    assert 0.0 < decision.proposal_weight < 1.0
    assert late.to_dict()["state"] == policy.to_dict()["state"]
    assert wrong.to_dict()["state"] != policy.to_dict()["state"]


# Contradictions -----------------------------------------------------------------------------------------------------


def tell_costs(policy: sf.Policy[Any], cost: float, rounds: int) -> None:
    """Feedback on arm 0, coin flips of which a share of `cost` are 1."""
    for t in range(rounds):
        policy.tell((0, 0.5, 0.5), float(t % 2), [float((t * cost) % 1.0 + cost >= 1.0)])


def contradicted(policy: sf.Policy[Any]) -> list[str]:
    """What a policy says when the cost of an arm jumps from 0.1 to 0.9."""
    tell_costs(policy, 0.1, 500)
    assert not policy.contradicted
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        tell_costs(policy, 0.9, 1500)
    assert all(warning.category is sf.Contradiction for warning in said)
    return [str(warning.message) for warning in said]


ENDLESS = sf.Problem(3, [0.5], None, 0.1, PROBLEM.safe)
CHANGES = [("led", {}), ("practical", {}), ("guaranteed", {}), ("guaranteed", {"confidence": "kl-mixture"})]


@pytest.mark.parametrize(("preset", "options"), CHANGES)
def test_after_a_jump_of_costs_bounds_begin_again(preset: str, options: dict[str, Any]) -> None:
    """To the bit those of estimates that saw nothing before, with more evidence; what is played is safe at them."""
    policy = sf.SOLB(ENDLESS, 7, preset=preset, **options)
    for t in range(100):
        policy.tell((1, 0.5, 0.5), 0.5, [float(t % 3 == 0)])
    tell_costs(policy, 0.1, 500)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for t in range(500):
            if not policy.contradicted:
                policy.tell((0, 0.5, 0.5), 0.0, [float(t % 10 > 0)])
    (warning,) = said
    assert str(warning.message).endswith("the policy forgets its bounds on the costs, and learns them again")
    assert policy.upper_costs[0, :2].tolist() == [1.0, 1.0]
    assert policy.lower_costs.tolist() == [[0.0, 0.0, 0.0]]
    assert policy.round < 700
    assert (sf.SOLB.from_bytes(policy.to_bytes()).strategy == policy.strategy).all()
    assert 1.0 - 0.8 * policy.strategy[2] <= 0.5 + 1e-12  # of the others no more is known than that they cost 1 at most
    bound = policy._method.bound
    assert bound.more == pytest.approx(-math.log(RESERVE))
    fresh = unknown_costs(3, 1, bound._replace(shares=bound.shares - bound.more))
    twins = [policy, sf.SOLB.from_dict(policy.to_dict()), sf.SOLB.from_bytes(policy.to_bytes()), copy.copy(policy)]
    for t in range(300):
        cost = float(t % 10 > 0)
        observe(fresh, 0, np.array([cost]))
        for one in twins:
            one.tell((0, 0.5, 0.5), 0.0, [cost])
            assert (one.upper_costs[:, 0] == fresh.upper[:, 0]).all()
            assert (one.lower_costs[:, 0] == fresh.lower[:, 0]).all()
            assert (one.strategy == policy.strategy).all()
    assert fresh.lower[0, 0] > 0.5
    assert len({one.to_bytes() for one in twins}) == 1


class PlaysOn(sf.SOLB):
    """Plays an arm of which it knows nothing any more."""

    def _learn_rows(self, rows: Floats) -> None:
        super()._learn_rows(rows)
        if self.contradicted:
            self._strategy[:] = np.eye(self.problem.n_arms)[0]


@pytest.mark.parametrize(
    ("confidence", "found"), [(None, "may cost .* in round"), ("hoeffding", "not the safe strategy in round")]
)
def test_the_contract_refuses_a_policy_that_plays_on(confidence: str | None, found: str) -> None:
    """Whether bounds begin again or not; the control is the policy that does not."""
    for cls in (sf.SOLB, PlaysOn):
        made = {"make": staticmethod(lambda problem, seed, cls=cls: cls(problem, seed, confidence=confidence))}
        contract: Any = type("Contract", (PolicyContract,), made)()
        with pytest.raises(AssertionError, match=found) if cls is PlaysOn else contextlib.nullcontext():
            contract.test_after_a_contradiction_a_hard_policy_plays_safe()


def test_after_the_second_contradiction_solb_plays_safe() -> None:
    """A second change is no bad luck. Each is said once, and a policy that was loaded says neither again."""
    policy = sf.SOLB(ENDLESS, 7)
    known = policy._state.known
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for n, cost in enumerate((0.1, 0.9, 0.1, 0.9)):
            assert (known.contradicted[0], known.begun[0]) == (min(2, max(0, n - 1)), min(1, max(0, n - 1)))
            tell_costs(policy, cost, 400 + 300 * n)
        sf.SOLB.from_bytes(policy.to_bytes()).tell((0, 0.5), 0.5, [1.0])
    assert [str(warning.message).rpartition("; ")[2] for warning in said] == [
        "the policy forgets its bounds on the costs, and learns them again",
        "the policy plays the safe strategy from now on",
    ]
    for one in (policy, sf.SOLB.from_dict(policy.to_dict()), copy.copy(policy)):
        assert one.strategy.tolist() == [0, 0, 1]
        assert one.safe_weight == 1.0


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("state/known/begun", [2], r"state.known.begun must be 1 after a contradiction of .*got 2$"),
        ("state/known/since", [9999, 0, 0], r"state.known.since must be at most state.known.counts, .*got"),
        ("state/known/since", [1, 0, 0], r"state.known.nodes must hold as many costs as .*counts less .*since, got"),
    ],
)
def test_states_that_began_again_are_checked(path: str, value: list[int], message: str) -> None:
    policy = sf.SOLB(ENDLESS, 7)
    contradicted(policy)
    with pytest.raises(sf.RuleError, match=message):
        sf.SOLB.from_dict(edited(policy.to_dict(), path, lambda _: value))


def test_an_older_state_that_stayed_with_the_safe_strategy_begins_again() -> None:
    """Until version 3 a contradiction was for good; the saved bounds are those that contradicted each other."""
    policy = sf.SOLB(ENDLESS, 7)
    tell_costs(policy, 0.1, 500)
    saved = edited(policy.to_dict(), "state/known/contradicted", lambda _: [1])
    for name in ("begun", "since"):
        del saved["state"]["known"][name]
    again = sf.SOLB.from_dict(sealed({**saved, "version": 3}))
    with pytest.raises(sf.RuleError, match=r"digest must be that of the saved policy"):
        sf.SOLB.from_dict({**sealed({**saved, "version": 3}), "digest": "0" * 32})
    assert again.contradicted
    assert again._state.known.since.tolist() == [500, 0, 0]
    assert again.upper_costs[0, 0] == 1.0
    assert 1.0 - 0.8 * again.strategy[2] <= 0.5 + 1e-12


def test_with_bounds_that_do_not_bet_solb_plays_safe_from_then_on() -> None:
    policy = sf.SOLB(sf.Problem(3, [0.5], 5000, 0.1, PROBLEM.safe), 7, confidence="hoeffding")
    said = contradicted(policy)
    assert len(said) == 1
    assert said[0].startswith("SOLB has found a lower bound on a cost above its upper bound by round ")
    assert said[0].endswith("the policy plays the safe strategy from now on")
    for one in (policy, sf.SOLB.from_dict(policy.to_dict()), sf.SOLB.from_bytes(policy.to_bytes()), copy.copy(policy)):
        assert one.contradicted
        for _ in range(50):
            assert one.strategy.tolist() == [0, 0, 1]
            assert one.safe_weight == 1.0
            one.tell(one.ask(), 1.0, [0.0])  # a second warning would be an error


def test_colb_says_so_and_goes_on() -> None:
    policy = sf.COLB(sf.Problem(3, [0.5], None, 0.1), 7)
    (said,) = contradicted(policy)
    assert said.endswith("the policy forgets its bounds on the costs, and learns them again")
    assert policy.contradicted
    assert sf.COLB.from_dict(policy.to_dict()).contradicted
    before = policy.strategy
    tell_costs(policy, 0.9, 100)
    assert (policy.strategy != before).any()


def test_a_contradiction_with_an_empty_safe_set_is_said_too() -> None:
    """Preset "paper" with bounds that are intersected: nothing is safe at the lower bounds, round after round."""
    problem = sf.Problem(2, [0.5], 3000, 0.05, sf.SafeStrategy([0, 1], [0.2]))
    policy, begun = sf.SOLB(problem, 1, preset="paper", learning_rate=0.1, confidence="betting"), 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for t in range(1500):
            policy.tell(policy.ask(), 0.5, [float(t < 200 or t % 5 < 3)])
            if t % 50 == 0 or policy._state.known.begun[0] != begun:
                begun = policy._state.known.begun[0]
                assert (sf.SOLB.from_bytes(policy.to_bytes()).strategy == policy.strategy).all()
    assert [warning.category for warning in said] == [sf.Contradiction]
    assert policy.empty_rounds > 200


@pytest.mark.parametrize("preset", ["practical", "led", "guaranteed", "paper"])
def test_what_the_safe_strategy_draws_may_be_told(preset: str) -> None:
    """It is played alone after a contradiction, with shares below what a proposal can have; less is refused."""
    safe = sf.SafeStrategy([0.89999, 0.1, 0.00001], [0.2])
    policy = sf.SOLB(sf.Problem(3, [0.5], 1000, 0.05, safe), 1, preset=preset)
    policy.tell(sf.Decision(2, 0.00001, 0.0), 0.5, [0.2])
    with pytest.raises(sf.RuleError, match="propensity must be in"):
        policy.tell(sf.Decision(2, 0.000001, 0.0), 0.5, [0.2])


@pytest.mark.filterwarnings("ignore:the margin")
def test_a_share_is_at_most_1() -> None:
    """OPB's strategy is a sum that rounding takes above 1 in these worlds: its own decisions would be refused."""
    for seed in (98, 110, 398, 461, 517, 644):
        rng = np.random.default_rng(seed)
        threshold = float(rng.uniform(0.2, 0.9))
        safe = sf.SafeStrategy([1, 0, 0], [threshold * float(rng.uniform(0.1, 0.9))])
        policy = sf.OPB(sf.Problem(3, [threshold], 150, 0.9, safe), seed)
        for _ in range(150):
            policy.tell(policy.ask(), float(rng.random()), [float(rng.random() < 0.5)])
            assert policy.strategy.max() <= 1.0


@pytest.mark.parametrize("cls", [sf.OptimisticLP, sf.SoftExp3])
def test_soft_policies_without_a_safe_strategy_go_on_with_a_strategy(cls: Any) -> None:
    """Their state has room for a safe strategy, since hard policies share it: zeros, which must not be played."""
    policy = cls(sf.Problem(3, [0.5], 5000, 0.1), 7, confidence="hoeffding")
    (said,) = contradicted(policy)
    assert said.endswith("the policy goes on")
    for one in (policy, cls.from_dict(policy.to_dict())):
        assert abs(one.strategy.sum() - 1) < 1e-12


@pytest.mark.parametrize("preset", ["led", "practical", "guaranteed"])
def test_a_block_of_rounds_begins_again_too(preset: str) -> None:
    """By `live` as round by round, to the bit; after the jump the arm is left, and tried no more than it may be."""
    n, rng = 6000, np.random.default_rng(3)
    problem = sf.Problem(2, [0.5], n, 0.1, sf.SafeStrategy([0, 1], [0.2]))
    means = np.where(np.arange(n)[:, None] < n // 2, [[0.1, 0.2]], [[0.9, 0.2]])
    costs = (rng.random((n, 2)) < means).astype(float)[:, None, :]
    losses, strategies, weights = np.tile([0.0, 1.0], (n, 1)), np.empty((n, 2)), np.empty(n)
    policy, turns = sf.SOLB(problem, 7, preset=preset), sf.SOLB(problem, 7, preset=preset)
    with pytest.warns(sf.Contradiction, match="learns them again$"):
        policy.live(losses, costs, strategies, weights)
    turns.quiet, begun = True, []
    for t in range(n):
        assert (turns.strategy == strategies[t]).all()
        begun.append(turns.contradicted)
        decision = turns.ask()
        turns.tell(decision, losses[t, decision.arm], costs[t, :, decision.arm])
    first = begun.index(True)
    assert n // 2 < first < n // 2 + 200
    assert strategies[first, 0] <= 3 / 8 + 1e-12  # at a cost of 1 that is 0.5 in all
    assert turns.to_bytes() == policy.to_bytes()
    assert strategies[-1] @ [0.9, 0.2] <= 0.5


def test_a_block_of_rounds_plays_safe_too() -> None:
    """With bounds that do not bet, by `live`: from the round after the contradiction on, the safe strategy."""
    n, rng = 6000, np.random.default_rng(3)
    problem = sf.Problem(2, [0.5], n, 0.1, sf.SafeStrategy([0, 1], [0.2]))
    means = np.where(np.arange(n)[:, None] < n // 2, [[0.1, 0.2]], [[0.9, 0.2]])
    costs = (rng.random((n, 2)) < means).astype(float)[:, None, :]
    losses, strategies, weights = np.tile([0.0, 1.0], (n, 1)), np.empty((n, 2)), np.empty(n)
    policy = sf.SOLB(problem, 7, confidence="hoeffding")
    with pytest.warns(sf.Contradiction, match="plays the safe strategy from now on$"):
        policy.live(losses, costs, strategies, weights)
    assert policy.contradicted
    found = int((strategies[:, 0] > 0.0).sum())
    assert n // 2 < found < n
    assert (strategies[found:] == [0.0, 1.0]).all()
    assert (weights[found:] == 1.0).all()


def test_fixed_means_contradict_nothing() -> None:
    """A contradiction means that a bound has failed, which has a probability of at most delta. Seeded: 40 runs."""
    for seed in range(40):
        policy, rng = sf.SOLB(PROBLEM, seed), np.random.default_rng([seed, 1])
        for _ in range(200):
            decision = policy.ask()
            cost = float(rng.random() < (0.1, 0.9, 0.2)[decision.arm])
            policy.tell(decision, float(rng.random()), [cost])  # a warning would be an error
        assert not policy.contradicted
        assert policy.strategy[0] > 0


@pytest.mark.parametrize("preset", ["practical", "paper"])
def test_observations_are_saved_and_are_no_rounds(preset: str) -> None:
    policy = sf.SOLB(sf.Problem(3, [0.5], 1000, safe=sf.SafeStrategy([0, 0, 1], [0.1])), 1, preset=preset)
    for _ in range(5):
        policy.observe(0, [0.2])
    policy.tell(policy.ask(), 0.5, [0.5])
    assert policy.round == 1
    for again in (sf.SOLB.from_bytes(policy.to_bytes()), sf.SOLB.from_dict(policy.to_dict())):
        assert again.to_bytes() == policy.to_bytes()
    data = policy.to_dict()
    with pytest.raises(sf.RuleError, match=r"state.known.counts must sum to round = 5, got a sum of 6"):
        sf.SOLB.from_dict({**data, "observed": 4})
    before = policy.to_bytes()
    for arm, costs in ((3, [0.2]), (0, [1.2]), (0, [0.2, 0.2])):
        with pytest.raises(sf.RuleError):
            policy.observe(arm, costs)
    assert policy.to_bytes() == before
