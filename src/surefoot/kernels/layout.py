"""States: one declaration per leaf defines its layout, its views and how it is saved.

A state is a named tuple, and its fields are leaves or further named tuples. Each leaf says what it is::

    class Record(NamedTuple):
        seen: Annotated[Integers, saved("K", rule=COUNT)]  # losses of each arm
        scores: Annotated[Floats, derived("K")]  # scratch
        rate: Annotated[float, derived()]  # a constant

``"K"`` is the number of arms, ``"m"`` that of guardrails; a state may have further sizes. From the declaration follow

* the layout: all leaves of a state lie in one float64 and one int64 buffer, the saved ones first;
* the named views that Python and kernels see (`Layout.open`, in compiled code the same function);
* what is written and checked when a state is saved and loaded.

The int64 buffer starts with the sizes, so the two buffers are all that has to be kept, copied or sent.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, types
from numba.extending import intrinsic
from numba.np import arrayobj

from surefoot.kernels.compile import compiled_door, merged
from surefoot.kernels.types import Floats, Integers
from surefoot.rules import Range, RuleError, numbers, shown

FINITE = Range(-1e300, 1e300)
NOT_NEGATIVE = Range(0, 1e300)
COUNT = Range(0, 1e15, whole=True)
TOTAL = Range(0, 1e15)

# Numba's type hints do not describe how these are called:
extension: Any = intrinsic
arrays: Any = arrayobj
generating: Any = cgutils
settings: Any = config


class Leaf(NamedTuple):
    """What a field of a state declares: its shape, whether it is saved, and the rule for each number in it."""

    shape: tuple[str, ...]
    saved: bool
    rule: Range


def saved(*shape: str | int, rule: Range = FINITE) -> Leaf:
    """Declare a leaf that is written when the policy is saved."""
    return Leaf(tuple(map(str, shape)), True, rule)


def derived(*shape: str | int) -> Leaf:
    """Declare a leaf that follows from the problem, the options and the saved leaves; or scratch space."""
    return Leaf(tuple(map(str, shape)), False, FINITE)


class Sized(NamedTuple):
    """Other sizes for a part of a state."""

    sizes: Mapping[str, str]


def sized(**sizes: str | int) -> Sized:
    """Declare a part whose sizes differ from those of the whole, such as ``sized(K="K + 1")``."""
    return Sized({symbol: str(size) for symbol, size in sizes.items()})


RESERVED = ("layout", "arrangement", "floats", "integers")
"""Attributes of a `Draft` beside its methods."""


class Field(NamedTuple):
    """A leaf within a state."""

    path: tuple[str, ...]
    leaf: Leaf
    integer: bool
    scalar: bool

    @property
    def name(self) -> str:
        """The path in readable form: ``learner.proposal``."""
        return ".".join(self.path)


class Arrangement(NamedTuple):
    """Where all leaves lie in the buffers of a state, given its sizes."""

    sizes: tuple[int, ...]
    places: dict[tuple[str, ...], Place]
    parts: frozenset[tuple[str, ...]]  # the paths of what is not a leaf
    n_floats: int
    n_integers: int
    saved_floats: int  # this many, from the start, are saved
    saved_integers: int


class Place(NamedTuple):
    """Where a leaf lies in its buffer."""

    field: Field
    start: int
    shape: tuple[int, ...]


def _fields(kind: type, path: tuple[str, ...], sizes: Mapping[str, str]) -> Iterator[Field]:
    """All leaves of a state, in the order of their declaration."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        base, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if isinstance(base, type) and hasattr(base, "_fields"):
            inner = dict(sizes)
            for note in notes:
                inner |= {symbol: _substitute(size, sizes) for symbol, size in note.sizes.items()}
            yield from _fields(base, (*path, name), inner)
            continue
        leaf = next((note for note in notes if isinstance(note, Leaf)), None)
        if leaf is None or base not in (Floats, Integers, float, int):
            raise TypeError(f"{kind.__name__}.{name} must declare a leaf (saved or derived), got {hint}")
        shape = tuple(_substitute(size, sizes) for size in leaf.shape)
        scalar = base in (float, int)
        yield Field((*path, name), leaf._replace(shape=shape), base in (Integers, int), scalar)


def _substitute(expression: str, sizes: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda found: f"({sizes.get(found[0], found[0])})", expression)


class Layout:
    """How the leaves of a state lie in its two buffers."""

    def __init__(self, kind: type) -> None:
        self.kind = kind
        declared = list(_fields(kind, (), {}))
        for field in declared:
            if any(hasattr(Draft, name) or name in RESERVED for name in field.path):
                raise TypeError(f"{kind.__name__}.{field.name} must have a name that no attribute of a Draft has")
        self.fields = sorted(declared, key=lambda field: not field.leaf.saved)
        found = re.findall(r"[A-Za-z_]\w*", " ".join(size for field in declared for size in field.leaf.shape))
        self.symbols = tuple(dict.fromkeys(["K", "m", *found]))
        self._names = {field.path: f"leaf{n}" for n, field in enumerate(self.fields)}
        self._classes: dict[str, type] = {}
        self._arrangements: dict[tuple[int, ...], Arrangement] = {}
        self._source = self._written()
        self.open = self._opened(view)
        """The named views of a pair of buffers."""

    @cached_property
    def opener(self) -> Callable[[Floats, Integers], Any]:
        """The same, for compiled code."""
        return self.open if settings.DISABLE_JIT else merged(self._opened(_view))

    def opener_of(self, **sizes: int) -> Callable[[Floats, Integers], Any]:
        """The same for states that have these sizes, so that a compiler knows where leaves are."""
        return self.open if settings.DISABLE_JIT else merged(self._opened(_view, **sizes))

    def _opened(self, view: Any, **sizes: int) -> Callable[[Floats, Integers], Any]:
        source = self._source
        for symbol, size in sizes.items():
            source = source.replace(
                f"    {symbol} = integers[{self.symbols.index(symbol)}]\n", f"    {symbol} = {size}\n"
            )
        opened: Callable[[Floats, Integers], Any] = executed(source, "opened", self.kind, view=view, **self._classes)
        return opened

    @cached_property
    def allocated(self) -> Any:
        """A new state of zeros, given all its sizes; for compiled code that may allocate."""
        lines = [f"def allocated({', '.join(self.symbols)}):"]
        for field in self.fields:
            shape = "".join(f"{size}, " for size in field.leaf.shape)
            kind = "np.int64" if field.integer else "np.float64"
            lines.append(f"    {self._names[field.path]} = np.zeros(({shape}), {kind})")
        lines.append(f"    return {self._assembled(self.kind, ())}")
        return compiled_door(executed("\n".join(lines), "allocated", self.kind, np=np, **self._classes))

    def _written(self) -> str:
        lines = ["def opened(floats, integers):"]
        lines += [f"    {symbol} = integers[{n}]" for n, symbol in enumerate(self.symbols)]
        lines += ["    f = 0", f"    i = {len(self.symbols)}"]
        for field in self.fields:
            buffer, at = ("integers", "i") if field.integer else ("floats", "f")
            shape = "".join(f"{size}, " for size in field.leaf.shape)
            length = " * ".join(f"({size})" for size in field.leaf.shape) or "1"
            value = f"{buffer}[{at}]" if field.scalar else f"view({buffer}, {at}, ({shape}))"
            lines += [f"    {self._names[field.path]} = {value}", f"    {at} += {length}"]
        lines.append(f"    return {self._assembled(self.kind, ())}")
        return "\n".join(lines)

    def _assembled(self, kind: type, path: tuple[str, ...]) -> str:
        alias = f"kind{len(self._classes)}"
        self._classes[alias] = kind
        parts = []
        for name, hint in get_type_hints(kind).items():
            inner = (*path, name)
            parts.append(self._names[inner] if inner in self._names else self._assembled(hint, inner))
        return f"{alias}({', '.join(parts)})"

    def arrangement(self, **sizes: int) -> Arrangement:
        """Where each leaf lies, given the sizes; those not given are 0."""
        key = tuple(sizes.get(symbol, 0) for symbol in self.symbols)
        if key not in self._arrangements:
            self._arrangements[key] = self._arranged(key)
        return self._arrangements[key]

    def _arranged(self, sizes: tuple[int, ...]) -> Arrangement:
        known, ends, saved_ends = dict(zip(self.symbols, sizes, strict=True)), [0, len(sizes)], [0, len(sizes)]
        places = {}
        for field in self.fields:
            shape = tuple(int(eval(size, {}, known)) for size in field.leaf.shape)  # our own declarations
            places[field.path] = Place(field, ends[field.integer], shape)
            ends[field.integer] += math.prod(shape)
            if field.leaf.saved:
                saved_ends[field.integer] = ends[field.integer]
        parts = frozenset(path[:n] for path in places for n in range(1, len(path)))
        return Arrangement(sizes, places, parts, ends[0], ends[1], saved_ends[0], saved_ends[1])

    def new(self, **sizes: int) -> Draft:
        """A state of zeros."""
        found = self.arrangement(**sizes)
        floats, integers = np.zeros(found.n_floats), np.zeros(found.n_integers, np.int64)
        integers[: len(found.sizes)] = found.sizes
        return Draft(self, found, floats, integers)


class Draft:
    """The two buffers of a state, whose leaves can be read and set by name.

    Setting an array fills it: ``draft.learner.proposal = 1 / K``.
    """

    def __init__(
        self, layout: Layout, arrangement: Arrangement, floats: Floats, integers: Integers, path: tuple[str, ...] = ()
    ) -> None:
        self.__dict__.update(layout=layout, arrangement=arrangement, floats=floats, integers=integers, _path=path)

    def view(self, place: Place) -> Any:
        """The numbers of a leaf, as an array."""
        return view(self.integers if place.field.integer else self.floats, place.start, place.shape)

    def __getattr__(self, name: str) -> Any:
        path = (*self._path, name)
        place = self.arrangement.places.get(path)
        if place is not None:
            found = self.view(place)
            return found.item() if place.field.scalar else found
        if path not in self.arrangement.parts:
            raise self._unknown(path)
        return Draft(self.layout, self.arrangement, self.floats, self.integers, path)

    def __setattr__(self, name: str, value: Any) -> None:
        path = (*self._path, name)
        if path not in self.arrangement.places:
            raise self._unknown(path)
        self.view(self.arrangement.places[path])[...] = value

    def _unknown(self, path: tuple[str, ...]) -> AttributeError:
        return AttributeError(f"{self.layout.kind.__name__} has no leaf {'.'.join(path)}")

    def opened(self) -> Any:
        """The named tuple of views that kernels work on."""
        return self.layout.open(self.floats, self.integers)

    @property
    def saved(self) -> tuple[Floats, Integers]:
        """The parts of the buffers that are saved."""
        return self.floats[: self.arrangement.saved_floats], self.integers[: self.arrangement.saved_integers]

    def _saved_places(self) -> Iterator[Place]:
        return (place for place in self.arrangement.places.values() if place.field.leaf.saved)

    def to_dict(self) -> dict[str, Any]:
        """The saved leaves as nested lists, by name."""
        tree: dict[str, Any] = {}
        for place in self._saved_places():
            *above, name = place.field.path
            branch = tree
            for part in above:
                branch = branch.setdefault(part, {})
            branch[name] = self.view(place).tolist()
        return tree

    def load(self, tree: Any, may_miss: frozenset[str] = frozenset(), may_have: frozenset[str] = frozenset()) -> None:
        """Set the saved leaves from what `to_dict` gave, each number checked by the rule of its leaf.

        States of older versions may lack some leaves, which then stay unchanged; unknown leaves are ignored.
        """
        received = dict(leaves_of(tree))
        places = {place.field.name: place for place in self._saved_places()}
        missing, odd = set(places) - set(received) - may_miss, set(received) - set(places) - may_have
        if missing or odd:
            difference = f"one without {shown(sorted(missing))}" if missing else f"one with {shown(sorted(odd))}"
            raise RuleError("state", "have the leaves of this policy", tree, difference)
        checked = {name: checked_leaf(place, received[name]) for name, place in places.items() if name in received}
        for name, values in checked.items():
            self.view(places[name])[...] = values

    def check(self) -> None:
        """Reject saved leaves that break their rules."""
        for place in self._saved_places():
            checked_leaf(place, self.view(place))


def checked_leaf(place: Place, values: Any) -> Any:
    """The numbers of a leaf, if they keep its rule. Valid arrays pass quickly; `numbers` words the error message."""
    rule = place.field.leaf.rule
    if isinstance(values, np.ndarray):
        within = values.size == 0 or (rule.low <= values.min() and values.max() <= rule.high)
        if within and (not rule.whole or place.field.integer or (values == np.floor(values)).all()):
            return values
    return numbers(f"state.{place.field.name}", values, rule, *place.shape)


def leaves_of(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The lists of nested mappings, by their joined names."""
    if not isinstance(tree, Mapping):
        raise RuleError("state" + (f".{path}" if path else ""), "be a mapping of leaves", tree)
    for name, value in tree.items():
        inner = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping):
            yield from leaves_of(value, inner)
        else:
            yield inner, value


@cache
def layout_of(kind: Any) -> Layout:
    """The layout of a state."""
    return Layout(kind)


def zeros(kind: type, **sizes: int) -> Any:
    """A named tuple of zeros, by its declaration; for kernels that are used on their own.

    Examples
    --------
    >>> from surefoot.kernels.linear import Program
    >>> zeros(Program, K=3, m=2).costs.shape
    (2, 3)
    """
    return layout_of(kind).new(**sizes).opened()


def executed(source: str, name: str, owner: Any, **names: Any) -> Any:
    """Build a function from generated code on behalf of an owner, which is a class or a function.

    Its file is that of the owner, where Numba keeps what it compiles, under a name that no other function there has.
    """
    file = getattr(sys.modules.get(owner.__module__), "__file__", None) or "<generated>"
    scope = {"__name__": owner.__module__, **names}
    exec(compile(source, file, "exec"), scope)  # our own code
    function = scope[name]
    function.__qualname__ = f"{owner.__qualname__}.{name}"
    return function


def view(buffer: Any, start: int, shape: tuple[int, ...]) -> Any:
    """A stretch of a buffer as an array of a shape; it shares the buffer's memory."""
    return buffer[start : start + math.prod(shape)].reshape(shape)


@extension  # type: ignore[untyped-decorator]
def _view(context: Any, buffer: Any, start: Any, shape: Any) -> Any:
    array = types.Array(buffer.dtype, len(shape), "C")

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        whole = arrays.make_array(signature.args[0])(context, builder, given[0])
        part = arrays.make_array(array)(context, builder)
        size = context.get_abi_sizeof(context.get_data_type(buffer.dtype))
        lengths = generating.unpack_tuple(builder, given[2], len(shape))
        strides: list[Any] = []
        stride: Any = ir.Constant(lengths[0].type, size)
        for length in reversed(lengths):
            strides.insert(0, stride)
            stride = builder.mul(stride, length)
        arrays.populate_array(
            part,
            data=builder.gep(whole.data, [given[1]]),
            shape=generating.pack_array(builder, lengths),
            strides=generating.pack_array(builder, strides),
            itemsize=ir.Constant(lengths[0].type, size),
            meminfo=None,
        )
        return part._getvalue()

    return array(buffer, start, shape), generate
