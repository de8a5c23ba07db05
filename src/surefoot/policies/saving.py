"""How policies are saved and loaded.

As JSON-able data for people, as bytes for machines. Both hold the problem, the options, the round, the numbers of open
decisions and of observations, the generator and the saved leaves of the state, and a digest of all these that detects
changes.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from surefoot.kernels.layout import leaves_of
from surefoot.problem import Problem
from surefoot.rules import WHOLE, RuleError, choice, fields, number, numbers

VERSION = 4
"""Of saved states. Older ones are read where their leaves still exist."""

ADDED = frozenset({"known.lower", "known.upper", "known.contradicted", "known.squares", "known.reach",
                   "known.upper_wealth", "known.lower_wealth", "known.nodes", "learner.base_rate",
                   "learner.spent", "lost.lower", "lost.upper", "lost.contradicted", "lost.squares", "lost.reach",
                   "lost.upper_wealth", "lost.lower_wealth", "lost.nodes", "gave_up", "known.begun", "known.since",
                   "lost.begun", "lost.since"})  # fmt: skip
DROPPED = frozenset({"safe_weight", "primal.safe_weight"})
"""Leaves that this version has and older versions lack, and the other way round."""

HEADER = ("policy", "version", "problem", "options", "round", "asked", "open", "observed", "generator")
"""What a saved policy says beside its state."""

MAGIC = b"surefoot"
DIGEST = 16
"""How saved bytes begin, and the length of the digest at their end."""


def to_dict(policy: Any) -> dict[str, Any]:
    """A policy as JSON-able data."""
    return sealed({**header(policy), "state": policy._draft.to_dict()})


def to_bytes(policy: Any) -> bytes:
    """A policy as bytes: how long the header is, the header in JSON, the saved part of the buffers, a digest."""
    floats, integers = policy._draft.saved
    described = json.dumps(header(policy), separators=(",", ":")).encode()
    whole: bytes = MAGIC + len(described).to_bytes(4, "little") + described + floats.tobytes() + integers.tobytes()
    return whole + hashlib.blake2b(whole, digest_size=DIGEST).digest()


def header(policy: Any) -> dict[str, Any]:
    """All of a policy but its state, as JSON-able data."""
    return {
        "policy": type(policy).__name__,
        "version": VERSION,
        "problem": policy.problem.to_dict(),
        "options": dict(policy._options),
        "round": policy._round,
        "asked": policy._asked,
        "open": listed(policy._open),
        "observed": policy._observed,
        "generator": written(policy._rng.bit_generator.state),
    }


def from_dict(cls: Any, data: Any) -> Any:
    """The policy that `to_dict` described."""
    version = dict(data).get("version") if hasattr(data, "items") else None
    if type(version) is int and 1 <= version < VERSION:
        policy = made(cls, completed("data", data, "state", *(("digest",) if version == 3 else ())))
        load_old(policy, version, data["state"])
    else:
        policy = made(cls, completed("data", data, "state", "digest"))
        policy._draft.load(data["state"])
    policy._loaded()
    if "digest" in data and data["digest"] != sealed(data)["digest"]:
        raise RuleError("digest", "be that of the saved policy, which was changed", data["digest"])
    return policy


def from_bytes(cls: Any, data: Any) -> Any:
    """The policy that `to_bytes` wrote."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise RuleError("data", "be the bytes that to_bytes returned", data)
    start = len(MAGIC) + 4
    whole, digest = bytes(data[:-DIGEST]), bytes(data[-DIGEST:])
    if whole[: len(MAGIC)] != MAGIC or digest != hashlib.blake2b(whole, digest_size=DIGEST).digest():
        raise RuleError("data", "be the bytes that to_bytes returned", data, f"{len(data)} other bytes")
    end = start + int.from_bytes(whole[len(MAGIC) : start], "little")
    try:
        described = json.loads(whole[start:end])
    except ValueError:
        raise RuleError("data", "start with a header in JSON", data, f"{len(data)} other bytes") from None
    policy = made(cls, completed("header", described))
    floats, integers = policy._draft.saved
    middle, sizes = end + floats.nbytes, len(policy._draft.arrangement.sizes)
    if len(whole) != middle + integers.nbytes:
        raise RuleError("data", f"hold {floats.size + integers.size} numbers", data, f"{len(data)} bytes")
    read = np.frombuffer(whole[middle:], np.int64)
    if (read[:sizes] != integers[:sizes]).any():
        raise RuleError("data", "have the sizes of its problem", data, f"{read[:sizes].tolist()}")
    floats[:], integers[:] = np.frombuffer(whole[end:middle]), read
    policy._draft.check()
    policy._loaded()
    return policy


def completed(name: str, data: Any, *more: str) -> Mapping[str, Any]:
    """Saved data, its names checked. Before decisions had numbers, a decision per round was counted and none kept."""
    if isinstance(data, Mapping) and "round" in data:
        data = {"asked": data["round"], "open": [], "observed": 0, **data}
    return fields(name, data, *HEADER, *more)


def listed(decisions: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """The number and the arm of each open decision, in the order of asking."""
    return sorted([asked, arm] for arm, of_arm in decisions.items() for asked in of_arm)


def opened(pairs: Iterable[Iterable[int]]) -> defaultdict[int, deque[int]]:
    """The numbers of the open decisions of each arm, from what `listed` returned."""
    decisions: defaultdict[int, deque[int]] = defaultdict(deque)
    for asked, arm in pairs:
        decisions[arm].append(asked)
    return decisions


def set_decisions(policy: Any, asked: Any, pairs: Any) -> None:
    """Check and set how many decisions a policy was asked for, and which of them are open."""
    policy._asked = number("asked", asked, WHOLE)
    table = numbers("open", np.empty((0, 2)) if pairs == [] else pairs, WHOLE, None, 2)
    order, arms = table.T
    if (np.diff(order) <= 0).any() or (order >= policy._asked).any() or (arms >= policy.problem.n_arms).any():
        rule = f"have rising numbers below asked = {policy._asked}, each with an arm below {policy.problem.n_arms}"
        raise RuleError("open", rule, pairs)
    if policy._asked > policy._round + len(table):
        raise RuleError("asked", f"be at most {policy._round + len(table)}, rounds and open decisions", policy._asked)
    policy._open = opened(table.astype(int).tolist())


def made(cls: Any, described: Mapping[str, Any]) -> Any:
    """A new policy as a header describes it, before its state is loaded."""
    choice("policy", described["policy"], (cls.__name__,))
    version = described["version"]
    if type(version) is not int or not 1 <= version <= VERSION:
        raise RuleError("version", f"be at most {VERSION}", version)
    problem, options = Problem.from_dict(described["problem"]), described["options"]
    try:
        with warnings.catch_warnings():  # the warning came when the policy was made
            warnings.simplefilter("ignore", UserWarning)
            policy = cls(problem, **options)
    except TypeError:
        raise RuleError("options", f"be those of {cls.__name__}", options) from None
    if version == VERSION and options != policy._options:
        raise RuleError("options", f"be those of {cls.__name__}, all of them", options)
    policy._rng = read_generator(described["generator"])
    policy._round = number("round", described["round"], WHOLE)
    if policy._round > policy._last:
        raise RuleError("round", f"be at most horizon = {problem.horizon}", policy._round)
    policy._observed = number("observed", described["observed"], WHOLE)
    set_decisions(policy, described["asked"], described["open"])
    return policy


def load_old(policy: Any, version: int, tree: Any) -> None:
    """Load a state of an older version, if its leaves still exist."""
    try:
        policy._draft.load(tree, ADDED, DROPPED)
    except RuleError as error:
        if error.argument != "state":
            raise
        rule = f"be {VERSION} for this policy and its options, whose state has other leaves now"
        raise RuleError("version", rule, version) from None
    policy._set_added(tree)


def written(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a PCG64, its 128-bit integers as text, which every JSON library can write."""
    return {**state, "state": {name: hex(value) for name, value in state["state"].items()}}


def read_generator(data: Any) -> np.random.Generator:
    """The generator that `written` described; older states have the integers themselves."""
    bits: Any = np.random.PCG64(0)
    with suppress(TypeError, ValueError, KeyError, OverflowError, AttributeError):  # it shows in the next line
        integers = {name: int(value, 16) if isinstance(value, str) else value for name, value in data["state"].items()}
        bits.state = {**data, "state": integers}
        if integers["inc"] % 2 == 1 and written(bits.state) == written({**data, "state": integers}):
            return np.random.Generator(bits)
    raise RuleError("generator", "be the state of a PCG64", data)


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data with a digest of everything in it, by which `from_dict` detects changes.

    Numbers count by their values, so that it makes no difference whether a JSON library writes 1 or 1.0.
    """
    content = {name: value for name, value in data.items() if name != "digest"}
    about = {name: value for name, value in content.items() if name != "state"}
    text = json.dumps(about, sort_keys=True, separators=(",", ":"), default=plainly)
    text = re.sub(r"-0(?=[],}])", "0", re.sub(r"(?<=\d)\.0(?=[],}])", "", text))
    hashed = hashlib.blake2b(text.encode(), digest_size=DIGEST)
    for name, value in sorted(leaves_of(content.get("state", {}))):
        hashed.update(name.encode() + (np.asarray(value, np.float64) + 0.0).tobytes())  # -0.0 is 0.0, too
    return {**content, "digest": hashed.hexdigest()}


def plainly(value: Any) -> Any:
    """A NumPy number as a plain one."""
    return value.item() if isinstance(value, np.generic) else repr(value)
