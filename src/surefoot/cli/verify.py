"""Testing the claims of the paper and showing the results."""

from __future__ import annotations

import platform
import shlex
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

import surefoot
from surefoot.cli.machine import print_json
from surefoot.cli.refusal import refuse
from surefoot.extras import MissingExtra
from surefoot.reporting.words import counted, duration
from surefoot.rules import RuleError
from surefoot.simulation.interruption import until_interrupted
from surefoot.simulation.progress import Bar
from surefoot.theory.catalogue import CLAIMS, claims_of
from surefoot.theory.durations import Duration, estimate
from surefoot.theory.verify import Result, verify

READING = """
How to read this page:

- A claim is **held** if it survives its trial and the same trial refutes every mutation. It is **refuted** at a level
  of 0.001, or by a single path on which a statement about all paths fails. Otherwise it is **not decided**. A trial can
  refute a claim, not prove it; the mutations show that it would notice a mistake.
- Lemma 4, Theorem 4 and the corollary have a gap in their published proof
  ([in numbers](theory/weighted-estimator.md#2-the-gap)). For them "held" means only that simulation did not refute
  them.
- "0 of 2000 runs fail (probability at most 0.05: refuted from 132 on)": each run may fail with a probability of at most
  0.05, so 132 failures or more would refute the claim.
- Claims of the paper are tried with preset "paper", mostly at a higher learning rate than its own, at which little
  would happen; those of Theorems R and L with their presets; those about live experiments with the default.
- A run or path is *clean* if every true mean was within its bounds in every round.
- The *least slack* is how close a path came to breaking an inequality. A slack of 1e-09 or 1e-07 is that of an
  equality, up to rounding.
- "The closed form says 2.6e+05 of 2,000": at this horizon the theorem's bound is larger than the number of rounds, so
  the trial tests the steps of its proof instead.
- The *power* is the probability with which a wrong claim is refuted.
- Unsafe runs were also counted in 1.7 million runs: [Runs on a GPU](gpu.md#safety).
"""
COLOURS = {"held": "green", "refuted": "red", "not decided": "yellow"}


def carry_out(names: list[str], full: bool, workers: int | None, out: Path | None, as_json: bool = False) -> None:
    """Try claims, one line each; the exit code is 1 unless all are held."""
    try:
        claims = list({one.name: one for name in names for one in claims_of(name)}.values()) or list(CLAIMS)
    except ValueError as error:
        raise refuse(error) from None
    if out is not None and (out.is_dir() or not out.parent.is_dir()):  # print each line now, not at the end
        raise refuse(RuleError("out", "be a file in a folder that exists", out, str(out)))
    console, results = Console(highlight=False), []
    width = max(len(tried.name) for tried in claims)
    trials = sum(1 + len(tried.mutations) for tried in claims)
    Console(stderr=True, highlight=False).print(expected(estimate(claims, full, workers), len(claims)), soft_wrap=True)
    with until_interrupted() as stop, Bar("Trying claims", trials, unit="trials") as bar:
        for result in verify(claims, full, workers, bar.advance, stop):
            results.append(result)
            if not as_json:
                console.print(line(result, width), soft_wrap=not console.is_terminal)
    if len(results) < len(claims):
        Console(stderr=as_json).print(f"Stopped: {len(claims) - len(results)} of {len(claims)} claims not tried.")
        raise typer.Exit(130)
    if out is not None:
        try:
            command = ["surefoot", "verify", *names, *(["--full"] if full else []), "--out", str(out)]
            out.write_text(page(results, shlex.join(command)), encoding="utf-8")
        except OSError as error:
            raise refuse(RuleError("out", "be a file that can be written", out, f"{out}: {error}")) from None
        Console(stderr=as_json, highlight=False).print(f"Evidence: {out}", soft_wrap=True)
    verdicts = [result.verdict for result in results]
    if as_json:
        print_json([as_data(result) for result in results])
    else:
        console.print(", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in COLOURS), style="bold")  # type: ignore[arg-type]
    if verdicts.count("held") < len(verdicts):
        raise typer.Exit(1)


def check_options(engine: str | None, of_claims: dict[str, Any], at_scale: dict[str, Any], workers: int | None) -> None:
    """Refuse options that would be ignored: claims are tried without an engine, shares are counted with one."""
    for name, value in of_claims.items():
        if engine is not None and value:
            rule = "be left out with --engine, which counts unsafe runs (choose by --policy and --scenario)"
            raise refuse(RuleError(name, rule, value))
    for name, value in at_scale.items():
        if engine is None and value:
            raise refuse(RuleError(name, "go with --engine", value))
    if engine == "cuda" and workers is not None:
        raise refuse(RuleError("workers", "be left out with --engine cuda: a GPU has a thread for each run", workers))


def try_at_scale(
    policies: list[str], scenarios: list[str], runs: int, rounds: int, engine: str, workers: int | None,
    out: Path | None, as_json: bool = False,
) -> None:  # fmt: skip
    """Count the unsafe runs of hard policies in many runs; the exit code is 1 if a share refutes the promise."""
    from surefoot.theory.at_scale import POLICIES, SCENARIOS, Share, csv_line, shares

    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise refuse(RuleError("out", "be a file in a folder that exists", out, str(out)))
    found: list[Share] = []
    console = Console(highlight=False)
    chosen = policies or list(POLICIES), scenarios or SCENARIOS
    try:
        for share in shares(*chosen, runs, rounds, engine=engine, workers=workers):
            found.append(share)
            if not as_json:
                told = f"{share.unsafe:,} of {share.runs:,} runs unsafe ({share.low:.2%} to {share.high:.2%})"
                console.print(f"{share.policy} in {share.scenario}, {share.rounds:,} rounds: {told}", soft_wrap=True)
            if out is not None:
                out.write_text("\n".join(map(csv_line, [None, *found])) + "\n", encoding="utf-8")
    except (RuleError, MissingExtra) as error:
        raise refuse(error) from None
    except OSError as error:
        raise refuse(RuleError("out", "be a file that can be written", out, f"{out}: {error}")) from None
    except KeyboardInterrupt:
        Console(stderr=as_json).print("Stopped: what is not listed was not tried.")
        raise typer.Exit(130) from None
    refuted = sum(share.refuted for share in found)
    if as_json:
        print_json([share_data(share) for share in found])
    elif refuted:
        console.print(f"{counted(refuted, 'share')} above delta: the promise is refuted", style="bold red")
    if refuted:
        raise typer.Exit(1)


def share_data(share: Any) -> dict[str, Any]:
    """A share of unsafe runs for machines; the quantiles of regret by their level."""
    from surefoot.theory.at_scale import QUANTILES

    levels = {f"{level:g}": value for level, value in zip(QUANTILES, share.quantiles, strict=True)}
    return {**share._asdict(), "quantiles": levels, "refuted": share.refuted}


def as_data(result: Result) -> dict[str, Any]:
    """A result for machines."""
    return {
        "claim": result.claim.name,
        "sentence": result.claim.sentence,
        "verdict": result.verdict,
        "runs": result.runs,
        "figures": result.finding.figures,
        "mutations": result.mutations,
        "seconds": result.seconds,
    }


def expected(found: Duration, claims: int) -> str:
    """How long it will take, in a sentence."""
    processes = counted(found.workers, "process", "processes")
    return (
        f"{counted(claims, 'claim')} on {processes}: about {duration(found.seconds)}, "
        f"between {duration(found.low)} and {duration(found.high)}, as measured on this machine just now. "
        "Code that is not compiled yet adds up to a minute."
    )


def line(result: Result, width: int) -> str:
    """A result in a line: the verdict, the claim, the figures, and whether the mutations were caught."""
    caught = len(result.mutations) - len(result.passed)
    teeth = f"{caught} of {len(result.mutations)} mutations refuted"
    if result.passed:
        teeth += f" (not: {', '.join(result.passed)})"
    verdict = f"[{COLOURS[result.verdict]}]{result.verdict:11}[/]"
    return (
        f"{verdict} [bold]{result.claim.name:{width}}[/] {result.finding.figures.replace('[', chr(92) + '[')}; {teeth}"
    )


def page(results: list[Result], command: str) -> str:
    """The evidence as Markdown, with the command that reproduces it."""
    seconds = sum(result.seconds for result in results)
    held = sum(result.verdict == "held" for result in results)
    lines = [
        "# Verification",
        "",
        "For readers who ask whether the code does what the theorems say.",
        f"**{held} of {counted(len(results), 'claim')} held.** Each was tried on the real policies, and on",
        "mutations: policies that are wrong in one way each.",
        "",
        f"Made by `{command}` with surefoot {surefoot.__version__}, Python {platform.python_version()}.",
        f"All trials together took {seconds:,.0f} s. Seeds are 0, 1, 2, ...",
        "",
        "| claim | verdict | runs | what it says |",
        "|---|---|---|---|",
    ]
    lines += [f"| {r.claim.name} | {r.verdict} | {r.runs:,} | {r.claim.sentence} |" for r in results]
    lines += READING.rstrip().split("\n")
    for result in results:
        tried = result.claim
        lines += ["", f"## {tried.name}", "", tried.sentence, "", f"- Tried on: {tried.family}."]
        lines += [f"- On every path: {tried.pathwise}."] if tried.pathwise else []
        lines += [f"- Test, {result.runs:,} runs: {tried.test}.", f"- **{result.verdict}**: {result.finding.figures}."]
        lines += [
            f"- Mutation, {words}: {finding.verdict}; {finding.figures}." for words, finding in result.mutations.items()
        ]
    return "\n".join(lines) + "\n"
