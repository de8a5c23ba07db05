"""Trying claims, and their mutations, side by side."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from threading import Event
from typing import NamedTuple

from surefoot.policies.rates import Motionless
from surefoot.theory.catalogue import CLAIMS
from surefoot.theory.claims import Claim, Finding, Verdict

Trial = tuple[Claim, str | None]
"""A claim, and the words for one of its mutations or None."""


class Result(NamedTuple):
    """The results of the trials of a claim."""

    claim: Claim
    runs: int
    finding: Finding
    mutations: dict[str, Finding]
    seconds: float

    @property
    def passed(self) -> list[str]:
        """The mutations that were not refuted, though they must be."""
        return [words for words, finding in self.mutations.items() if finding.verdict != "refuted"]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the claim: held only if every mutation is refuted."""
        return "not decided" if self.finding.verdict == "held" and self.passed else self.finding.verdict


def runs_of(tried: Claim, full: bool, mutation: str | None) -> int:
    """Number of runs in a trial. A mutation fails often, so a quarter of the runs is enough, but at least 100."""
    runs = tried.runs[full]
    return runs if mutation is None else min(runs, max(100, runs // 4))


def attempt(tried: Claim, mutation: str | None, full: bool) -> tuple[Finding, float]:
    """One trial, and the seconds it took."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Motionless)  # rates are part of the trial
        finding = tried.trial(None if mutation is None else tried.mutations[mutation], runs_of(tried, full, mutation))
    return finding, time.perf_counter() - started


def verify(
    claims: Sequence[Claim] = CLAIMS,
    full: bool = False,
    workers: int | None = None,
    advance: Callable[[int], None] = lambda trials: None,
    stop: Event | None = None,
) -> Iterator[Result]:
    """Try claims; results come in the order of the claims, for any number of workers.

    Parameters
    ----------
    claims
        The claims to try; by default all.
    full
        More runs: minutes instead of seconds.
    workers
        Number of processes, by default one per core; with 1, all trials run in this process.
    advance
        Called after each finished trial.
    stop
        Set it to end early: unfinished trials are left out.

    Examples
    --------
    >>> from surefoot.theory.catalogue import claim
    >>> [result] = verify([claim("Lemma 1")], workers=1)
    >>> result.verdict, result.mutations["radius times 0.1"].verdict
    ('held', 'refuted')
    """
    trials = [(tried, words) for tried in claims for words in (None, *tried.mutations)]
    found: dict[tuple[str, str | None], tuple[Finding, float]] = {}
    waiting = list(claims)
    for (asked, words), answer in _answers(trials, full, workers or os.cpu_count() or 1, stop or Event()):
        found[asked.name, words] = answer
        advance(1)
        while waiting and all((waiting[0].name, words) in found for words in (None, *waiting[0].mutations)):
            tried = waiting.pop(0)
            of_mutations = {words: found[tried.name, words][0] for words in tried.mutations}
            seconds = sum(found[tried.name, words][1] for words in (None, *tried.mutations))
            runs = runs_of(tried, full, None)
            yield Result(tried, runs, found[tried.name, None][0], of_mutations, seconds)


def _answers(
    trials: list[Trial], full: bool, workers: int, stop: Event
) -> Iterator[tuple[Trial, tuple[Finding, float]]]:
    if workers == 1:
        for trial in trials:
            if stop.is_set():
                return
            yield trial, attempt(*trial, full)
        return
    # by process: paths are recorded in Python; a new one each, as threads and compiled code do not survive a fork
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_leave_interrupts)
    try:
        pending: dict[Future[tuple[Finding, float]], Trial] = {
            pool.submit(attempt, *trial, full): trial for trial in trials
        }
        while pending and not stop.is_set():
            done, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in done:
                yield pending.pop(future), future.result()
    finally:  # also if a trial raises, or the caller stops early
        pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
