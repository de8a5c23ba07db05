"""From declarations to buffers: where leaves lie, who sees them, what is saved, and what is refused when loaded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numba.core import config

from surefoot.kernels.compile import compiled, compiled_apart, merged
from surefoot.kernels.episode import Algorithm
from surefoot.kernels.layout import (
    COUNT,
    FINITE,
    NOT_NEGATIVE,
    Draft,
    derived,
    executed,
    layout_of,
    saved,
    sized,
    zeros,
)
from surefoot.kernels.types import SOLVED, Floats, Integers
from surefoot.policies import REGISTRY
from surefoot.policies.guarded import Guarded
from surefoot.rules import SHARE, Range, RuleError


class Inner(NamedTuple):
    """A part of a part."""

    totals: Annotated[Floats, saved("K", rule=NOT_NEGATIVE)]
    square: Annotated[Floats, derived("m + 1", "m + 1")]


class Part(NamedTuple):
    """A part, with a part of twice as many arms."""

    rate: Annotated[float, derived()]
    inner: Annotated[Inner, sized(K="2 * K")]
    seen: Annotated[Integers, saved("K", rule=COUNT)]


class Whole(NamedTuple):
    """Leaves of both types and of one to three axes, saved and derived in turn, and the same part in two sizes."""

    scratch: Annotated[Floats, derived("K - 1", "m + 1")]
    counts: Annotated[Integers, saved("K", rule=COUNT)]
    limit: Annotated[int, derived()]
    part: Part
    wider: Annotated[Part, sized(K="K + 1", m="m + K")]
    shares: Annotated[Floats, saved("m", "K", rule=SHARE)]
    cube: Annotated[Floats, saved("m", "K", "nodes")]
    places: Annotated[Integers, derived(3, "m + 1")]


class Expected(NamedTuple):
    """What `Whole` declares of a leaf, worked out by hand."""

    shape: tuple[int, ...]
    saved: bool
    integer: bool = False
    rule: Range = FINITE


def expected(K: int, m: int, nodes: int) -> dict[str, Expected]:
    """All leaves in the order of their declaration."""
    return {
        "scratch": Expected((K - 1, m + 1), False),
        "counts": Expected((K,), True, True, COUNT),
        "limit": Expected((), False, True),
        "part.rate": Expected((), False),
        "part.inner.totals": Expected((2 * K,), True, rule=NOT_NEGATIVE),
        "part.inner.square": Expected((m + 1, m + 1), False),
        "part.seen": Expected((K,), True, True, COUNT),
        "wider.rate": Expected((), False),
        "wider.inner.totals": Expected((2 * (K + 1),), True, rule=NOT_NEGATIVE),
        "wider.inner.square": Expected((m + K + 1, m + K + 1), False),
        "wider.seen": Expected((K + 1,), True, True, COUNT),
        "shares": Expected((m, K), True, rule=SHARE),
        "cube": Expected((m, K, nodes), True),
        "places": Expected((3, m + 1), False, True),
    }


SIZES = st.fixed_dictionaries({"K": st.integers(1, 4), "m": st.integers(0, 3), "nodes": st.integers(0, 3)})
SAVED = [name for name, leaf in expected(1, 1, 1).items() if leaf.saved]
HERE = {"K": 3, "m": 2, "nodes": 2}


def values_of(leaf: Expected) -> st.SearchStrategy[Any]:
    """Numbers that keep the rule of a leaf."""
    if leaf.integer:
        return arrays.arrays(np.int64, leaf.shape, elements=st.integers(0, 10**15))
    elements = st.floats(max(leaf.rule.low, -1e300), leaf.rule.high, allow_subnormal=False)
    return arrays.arrays(np.float64, leaf.shape, elements=elements)


def get(root: Any, name: str) -> Any:
    for part in name.split("."):
        root = getattr(root, part)
    return root


def put(draft: Any, name: str, value: Any) -> None:
    *above, last = name.split(".")
    setattr(get(draft, ".".join(above)) if above else draft, last, value)


@st.composite
def filled(draw: Any, sizes: st.SearchStrategy[dict[str, int]] = SIZES) -> tuple[Draft, dict[str, Any]]:
    """A draft whose leaves were set by name, and the values."""
    chosen = draw(sizes)
    draft = layout_of(Whole).new(**chosen)
    values = {name: draw(values_of(leaf)) for name, leaf in expected(**chosen).items()}
    for name, value in values.items():
        put(draft, name, value)
    return draft, values


def counted(**sizes: int) -> Draft:
    """A draft with other numbers in every leaf, all of which keep the rules."""
    draft, n = layout_of(Whole).new(**sizes), 0
    for name, leaf in expected(**sizes).items():
        room = math.prod(leaf.shape)
        values = np.arange(n, n + room).reshape(leaf.shape)
        put(draft, name, values / 1000 if leaf.rule is SHARE else values)
        n += room
    return draft


@given(SIZES)
def test_shapes_follow_from_the_declaration(sizes: dict[str, int]) -> None:
    opened, drafted = zeros(Whole, **sizes), layout_of(Whole).new(**sizes)
    for name, leaf in expected(**sizes).items():
        for found in (get(opened, name), get(drafted, name)):
            assert np.shape(found) == leaf.shape
            assert np.issubdtype(np.asarray(found).dtype, np.integer) == leaf.integer
            assert not np.any(found)


@given(filled())
def test_saved_leaves_come_first_after_a_header_of_sizes(made: tuple[Draft, dict[str, Any]]) -> None:
    draft, values = made
    leaves = expected(**dict(zip(draft.layout.symbols, draft.arrangement.sizes, strict=True)))

    def chained(integer: bool, *kept: bool) -> list[Any]:
        return [
            number
            for keep in kept
            for name, leaf in leaves.items()
            if leaf.integer == integer and leaf.saved == keep
            for number in np.ravel(values[name]).tolist()
        ]

    assert draft.floats.tolist() == chained(False, True, False)
    assert draft.integers.tolist() == [*draft.arrangement.sizes, *chained(True, True, False)]
    kept_floats, kept_integers = draft.saved
    assert kept_floats.tolist() == chained(False, True)
    assert kept_integers.tolist() == [*draft.arrangement.sizes, *chained(True, True)]


def test_the_header_names_arms_and_guardrails_first() -> None:
    assert layout_of(Whole).symbols == ("K", "m", "nodes")
    assert layout_of(Whole).new(nodes=7, m=2, K=5).integers[:3].tolist() == [5, 2, 7]


@given(filled())
def test_what_is_set_by_name_is_read_by_name_and_seen_in_the_views(made: tuple[Draft, dict[str, Any]]) -> None:
    draft, values = made
    opened = draft.opened()
    for name, value in values.items():
        for found in (get(draft, name), get(opened, name)):
            assert np.array_equal(found, value)
            if np.ndim(value):
                buffer = draft.integers if found.dtype == np.int64 else draft.floats
                assert np.shares_memory(found, buffer) == (found.size > 0)
                assert found.flags.c_contiguous


def test_to_set_an_array_is_to_fill_it() -> None:
    draft = layout_of(Whole).new(**HERE)
    shares, opened = draft.shares, draft.opened()
    draft.shares = 0.5
    draft.shares[1] = [0.1, 0.2, 0.3]
    opened.wider.seen[2] = 4
    assert shares.tolist() == opened.shares.tolist() == [[0.5] * 3, [0.1, 0.2, 0.3]]
    assert draft.wider.seen.tolist() == [0, 0, 4, 0]


@pytest.mark.parametrize("name", ["share", "part.totals", "part", "part.inner.totals.first"])
def test_names_that_are_no_leaves_cannot_be_set(name: str) -> None:
    draft = layout_of(Whole).new(**HERE)
    with pytest.raises(AttributeError):
        put(draft, name, 1.0)
    assert not draft.floats.any()
    with pytest.raises(AttributeError, match=r"Whole has no leaf part\.totals"):
        draft.part.totals  # noqa: B018


def test_values_of_another_shape_cannot_be_set() -> None:
    with pytest.raises(ValueError, match="could not broadcast"):
        layout_of(Whole).new(**HERE).shares = [0.1, 0.2]


@compiled
def fill_list(leaf: Any, n: float) -> float:
    for i in range(leaf.shape[0]):
        leaf[i] = n
        n += 1
    return n


@compiled
def fill_table(leaf: Any, n: float) -> float:
    for i in range(leaf.shape[0]):
        for j in range(leaf.shape[1]):
            leaf[i, j] = n
            n += 1
    return n


@compiled
def fill_cube(leaf: Any, n: float) -> float:
    for i in range(leaf.shape[0]):
        for j in range(leaf.shape[1]):
            n = fill_list(leaf[i, j], n)  # a view of a view, as many kernels take it
    return n


opened_whole = layout_of(Whole).opener


@compiled_apart
def count_through(floats: Floats, integers: Integers) -> float:
    """Number all leaves from the constants on, in the order of their declaration."""
    whole = opened_whole(floats, integers)
    n = whole.limit + whole.part.rate + 10.0 * whole.wider.rate
    n = fill_table(whole.scratch, n)
    n = fill_list(whole.counts, n)
    n = fill_list(whole.part.inner.totals, n)
    n = fill_table(whole.part.inner.square, n)
    n = fill_list(whole.part.seen, n)
    n = fill_list(whole.wider.inner.totals, n)
    n = fill_table(whole.wider.inner.square, n)
    n = fill_list(whole.wider.seen, n)
    n = fill_table(whole.shares, n)
    n = fill_cube(whole.cube, n)
    return fill_table(whole.places, n)


@given(SIZES, st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_compiled_code_writes_into_the_same_memory(sizes: dict[str, int], limit: int, one: int, other: int) -> None:
    draft = layout_of(Whole).new(**sizes)
    draft.limit, draft.part.rate, draft.wider.rate = limit, one, other
    n = limit + one + 10 * other
    end = count_through(draft.floats, draft.integers)
    for name, leaf in expected(**sizes).items():
        if leaf.shape:
            room = math.prod(leaf.shape)
            assert get(draft, name).ravel().tolist() == list(range(n, n + room))
            n += room
    assert end == n
    assert (draft.limit, draft.part.rate, draft.wider.rate) == (limit, one, other)
    assert draft.integers[:3].tolist() == [sizes[symbol] for symbol in draft.layout.symbols]


@compiled_apart
def count_columns(floats: Floats, integers: Integers) -> None:
    """Number the shares column by column, by views that are not contiguous."""
    whole, n = opened_whole(floats, integers), 0.0
    for a in range(whole.shares.shape[1]):
        n = fill_list(whole.shares[:, a], n)


def test_compiled_code_finds_the_columns_of_a_leaf() -> None:
    draft = layout_of(Whole).new(**HERE)
    count_columns(draft.floats, draft.integers)
    assert draft.shares.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_compiled_code_allocates_what_python_does() -> None:
    made = layout_of(Whole).allocated(3, 2, 2)
    for name, leaf in expected(**HERE).items():
        assert np.shape(get(made, name)) == leaf.shape
        assert not np.any(get(made, name))


@given(filled())
def test_saved_leaves_survive_json_and_nothing_else_does(made: tuple[Draft, dict[str, Any]]) -> None:
    draft, values = made
    sizes = dict(zip(draft.layout.symbols, draft.arrangement.sizes, strict=True))
    other = counted(**sizes)
    before = other.floats.copy(), other.integers.copy()
    tree = draft.to_dict()
    other.load(json.loads(json.dumps(tree)))
    assert other.to_dict() == tree
    for part, whole in zip(other.saved, draft.saved, strict=True):
        assert part.tobytes() == whole.tobytes()
    kept = other.arrangement.saved_floats, other.arrangement.saved_integers
    assert other.floats[kept[0] :].tolist() == before[0][kept[0] :].tolist()
    assert other.integers[kept[1] :].tolist() == before[1][kept[1] :].tolist()
    for name in values:
        assert (name in SAVED) == held(tree, name)


def held(tree: Any, name: str) -> bool:
    for part in name.split("."):
        if part not in tree:
            return False
        tree = tree[part]
    return True


def with_leaf(tree: dict[str, Any], name: str, value: Any) -> None:
    *above, last = name.split(".")
    for part in above:
        tree = tree[part]
    tree[last] = value


def without_leaf(tree: dict[str, Any], name: str) -> None:
    *above, last = name.split(".")
    for part in above:
        tree = tree[part]
    del tree[last]


def refused(tree: Any) -> RuleError:
    """The error with which a tree is refused; nothing has changed."""
    draft = counted(**HERE)
    before = draft.floats.tobytes(), draft.integers.tobytes()
    with pytest.raises(RuleError) as caught:
        draft.load(tree)
    assert (draft.floats.tobytes(), draft.integers.tobytes()) == before
    return caught.value


@settings(max_examples=300)
@given(st.data(), st.sampled_from(SAVED), st.floats(allow_nan=True, allow_infinity=True))
def test_a_number_that_breaks_its_rule_is_refused_by_name(data: st.DataObject, name: str, wrong: float) -> None:
    draft, _ = data.draw(filled(st.just(HERE)))
    leaf, tree = expected(**HERE)[name], draft.to_dict()
    assume(wrong not in leaf.rule)
    place = tuple(data.draw(st.integers(0, length - 1)) for length in leaf.shape)
    numbers = np.array(get(draft, name), float)
    numbers[place] = wrong
    with_leaf(tree, name, numbers.tolist())
    error = refused(tree)
    assert error.argument == f"state.{name}[{', '.join(map(str, place))}]"
    assert error.rule == f"be {leaf.rule}"
    assert str(error).startswith(f"{error.argument} must be ")
    with pytest.raises(RuleError, match=rf"state\.{name}\["):  # the same where buffers were read as they are
        spoiled(draft, name, place, wrong).check()


def spoiled(draft: Draft, name: str, place: tuple[int, ...], wrong: float) -> Draft:
    leaf = get(draft, name)
    leaf[place] = wrong if leaf.dtype == np.float64 else -1
    return draft


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("shares", [[0.1, 0.2, math.nan], [0.1, 0.2, 0.3]], r"state.shares[0, 2] must be in [0, 1], got nan"),
        ("counts", [1, 2, 0.5], "state.counts[2] must be a whole number in [0, 1e+15], got 0.5"),
        ("part.inner.totals", [0, 0, 0, 0, 0, -1e-9], "state.part.inner.totals[5] must be in [0, 1e+300], got -1e-09"),
        ("wider.seen", [1, 2, 3], "state.wider.seen must be an array of shape 4, got one of shape (3,)"),
        ("shares", [0.1, 0.2, 0.3], "state.shares must be an array of shape 2 x 3, got one of shape (3,)"),
        ("cube", [[[0, 0]] * 3, [[0, 0]] * 2], "state.cube must be an array of numbers, got "),
        ("shares", [[0.1, 0.2, None], [0.1, 0.2, 0.3]], "state.shares must be an array of numbers, got "),
        ("part.seen", "123", "state.part.seen must be an array of numbers, got '123'"),
        ("part.seen", [1, 2, True], "state.part.seen must be an array of numbers, got [1, 2, True]"),
        ("part.extra", [1.0], "state must have the leaves of this policy, got one with ['part.extra']"),
        ("scratch", [[0.0] * 3] * 2, "state must have the leaves of this policy, got one with ['scratch']"),
        ("part", [], "state must have the leaves of this policy, got one without ['part.inner.totals', 'part.seen']"),
    ],
)
def test_leaves_that_do_not_fit_are_refused_in_one_sentence(name: str, value: Any, sentence: str) -> None:
    tree = layout_of(Whole).new(**HERE).to_dict()
    with_leaf(tree, name, value)
    assert str(refused(tree)).startswith(sentence)


@pytest.mark.parametrize("name", SAVED)
def test_a_missing_leaf_is_refused_by_name(name: str) -> None:
    tree = layout_of(Whole).new(**HERE).to_dict()
    without_leaf(tree, name)
    assert str(refused(tree)) == f"state must have the leaves of this policy, got one without ['{name}']"


@pytest.mark.parametrize("tree", [None, [], "state", 3])
def test_what_is_no_mapping_is_refused(tree: Any) -> None:
    assert str(refused(tree)) == f"state must be a mapping of leaves, got {tree!r}"


def test_older_states_may_miss_leaves_and_have_others() -> None:
    draft, tree = counted(**HERE), layout_of(Whole).new(**HERE).to_dict()
    seen = draft.part.seen.tolist()
    without_leaf(tree, "part.seen")
    tree["gone"] = [1.0]
    draft.load(tree, may_miss=frozenset({"part.seen"}), may_have=frozenset({"gone"}))
    assert draft.part.seen.tolist() == seen
    assert not draft.counts.any()
    with pytest.raises(RuleError, match="one with"):
        draft.load(tree, may_miss=frozenset({"part.seen"}))
    with pytest.raises(RuleError, match="one without"):
        draft.load(tree, may_have=frozenset({"gone"}))


class Undeclared(NamedTuple):
    """A leaf that says nothing of its shape."""

    shares: Floats


class Misdeclared(NamedTuple):
    """A leaf with a note that is no declaration."""

    shares: Annotated[Floats, "K"]


class Listed(NamedTuple):
    """A leaf of a type that no buffer holds."""

    shares: Annotated[list[float], saved("K")]


class Around(NamedTuple):
    """The same, one level down."""

    part: Undeclared


@pytest.mark.parametrize("kind", [Undeclared, Misdeclared, Listed, Around])
def test_a_leaf_without_a_declaration_is_refused(kind: type) -> None:
    name = "Undeclared" if kind is Around else kind.__name__
    with pytest.raises(TypeError, match=rf"{name}.shares must declare a leaf \(saved or derived\), got "):
        layout_of(kind)


class Tally(NamedTuple):
    """A state that two algorithms share."""

    total: Annotated[Floats, saved(1)]
    strategy: Annotated[Floats, derived("K")]
    safe_weight: Annotated[Floats, derived(1)]


class Other(NamedTuple):
    """A state of the same types, in another order."""

    strategy: Annotated[Floats, derived("K")]
    safe_weight: Annotated[Floats, derived(1)]
    total: Annotated[Floats, derived(1)]


def add_loss(state: Any, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    state.total[0] += loss
    return SOLVED


def take_loss(state: Any, arm: int, propensity: float, weight: float, loss: float, costs: Floats) -> int:
    state.total[0] -= loss
    return SOLVED


def start_high(state: Any) -> None:
    state.total[0] = 7.0


def start_low(state: Any) -> None:
    state.total[0] = -7.0


@pytest.fixture
def new_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code is kept apart from that of earlier runs."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))


def after_one_round(algorithm: Algorithm[Any]) -> tuple[float, float, float]:
    """The total at the start, after a loss of 1/2, and after a state was restored."""
    draft = algorithm.layout.new(K=2, m=0)
    buffers, totals = (draft.floats, draft.integers), []
    for step in (
        lambda: algorithm.begin(*buffers),
        lambda: algorithm.tell(*buffers, np.array([[0, 0.5, 1.0, 0.5]]), np.zeros(0)),
        lambda: algorithm.restore(*buffers),
    ):
        step()
        totals.append(float(draft.total[0]))
    return cast(tuple[float, float, float], tuple(totals))


@pytest.mark.usefixtures("new_cache")
def test_algorithms_that_share_a_state_or_a_kernel_do_not_share_machine_code() -> None:
    """The oracle once ran the cached code of COLB, whose state it shares."""
    add, take, high, low = merged(add_loss), merged(take_loss), compiled(start_high), compiled(start_low)
    for _ in range(2):  # compiled, then from the cache
        assert after_one_round(Algorithm(Tally, add, high, low)) == (7.0, 7.5, -7.0)
        assert after_one_round(Algorithm(Tally, take, low, high)) == (-7.0, -7.5, 7.0)
        assert after_one_round(Algorithm(Other, add, high, low)) == (7.0, 7.5, -7.0)


@pytest.mark.usefixtures("new_cache")
def test_doors_of_one_name_do_not_share_machine_code() -> None:
    """Compiled code is kept by what it was made from, so even equal names would do no harm."""
    source = "def door(total):\n    return change(total)\n"

    def more(total: float) -> float:
        return total + 1.0

    def less(total: float) -> float:
        return total - 1.0

    def through(change: Callable[[float], float]) -> float:
        door = compiled_apart(executed(source, "door", Tally, change=compiled(change)))
        return float(door(0.0))

    assert through(more) == 1.0
    assert through(less) == -1.0


def algorithms() -> Iterator[Algorithm[Any]]:
    """Of all registered policies."""
    for policy in REGISTRY.values():
        if issubclass(policy, Guarded):
            yield from (method.algorithm for method in policy.methods.values())
        else:
            yield policy.algorithm


def test_every_door_of_the_package_has_a_name_of_its_own() -> None:
    """A door is made for a state and a kernel; policies that share both share the door. No two have one name."""
    owners: dict[tuple[str, str], set[Any]] = {}
    made = list(algorithms())
    assert len(made) >= len(REGISTRY)  # at least one of each policy
    for algorithm in made:
        doors: list[tuple[str, Any, Any]] = []
        if algorithm._begin is not None:
            doors.append(("begin", algorithm._begin, algorithm.begin))
        if algorithm._restore is not None:
            doors.append(("restore", algorithm._restore, algorithm.restore))
        if algorithm.update is not None:
            doors.append(("tell", algorithm.update, algorithm.tell))
            for queued in (False, True):
                doors.append((f"play {queued}", algorithm.update, algorithm.play(queued=queued)))
        assert doors
        for what, kernel, door in doors:
            owners.setdefault((door.__module__, door.__qualname__), set()).add((what, algorithm.state, kernel))
    assert all(len(of_one_name) == 1 for of_one_name in owners.values())
    assert len(owners) == len(set[Any].union(*owners.values()))  # and no door has two


def test_declarations_of_the_package_are_sound() -> None:
    """Whole numbers have rules of whole numbers; constants, which kernels cannot change, are not saved."""
    own = {*dir(Draft), *vars(layout_of(Tally).new(K=1))}  # what a draft calls its own hides a leaf of that name
    for state in {algorithm.state for algorithm in algorithms()}:
        for field in layout_of(cast(Any, state)).fields:
            assert field.leaf.rule.whole or not (field.integer and field.leaf.saved), field.name
            assert not (field.scalar and field.leaf.saved), field.name
            assert not own & set(field.path), field.name
