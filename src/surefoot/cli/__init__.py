"""The command `surefoot`. Commands are thin: they parse, call, and print."""

import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated, Literal

import typer

import surefoot

EXIT_CODES = (
    "Exit codes: 0 done; 1 a claim of verify is not held, or the command failed; 2 an argument, a file or a study is "
    "wrong; 130 stopped by Ctrl-C."
)

app = typer.Typer(
    help="Constrained multi-armed bandits: decisions that learn while their guardrails hold.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"surefoot {surefoot.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Constrained multi-armed bandits: decisions that learn while their guardrails hold."""
    warnings.showwarning = _note


def _note(message: Warning | str, *_: object, **__: object) -> None:
    print(f"note: {message}", file=sys.stderr)


def complete_policy(incomplete: str) -> list[str]:
    """Names of policies, for the shell."""
    from surefoot.policies import REGISTRY

    return [name for name in REGISTRY if name.startswith(incomplete)]


def complete_hard(incomplete: str) -> list[str]:
    """Names of the policies whose unsafe runs are counted, for the shell."""
    from surefoot.theory.at_scale import POLICIES

    return [name for name in POLICIES if name.startswith(incomplete)]


def complete_counted(incomplete: str) -> list[str]:
    """Names of the scenarios in which unsafe runs are counted, for the shell."""
    from surefoot.theory.at_scale import SCENARIOS

    return [name for name in SCENARIOS if name.startswith(incomplete)]


def complete_claim(incomplete: str) -> list[str]:
    """Names of claims, for the shell."""
    from surefoot.theory.catalogue import CLAIMS

    return [claim.name for claim in CLAIMS if claim.name.startswith(incomplete)]


def complete_scenario(context: typer.Context, incomplete: str) -> list[str]:
    """Names of the scenarios in a folder, for the shell."""
    from json import loads

    try:
        told = loads((Path(context.params["folder"]) / "provenance.json").read_bytes())
        names = [str(part["scenario"]["id"]) for part in told["simulations"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [name for name in names if name.startswith(incomplete)]


Figures = Annotated[
    bool | None,
    typer.Option(
        "--figures/--no-figures",
        help="Draw figures of each scenario; by default, if at most eight.",
        show_default=False,
    ),
]
EngineName = Annotated[Literal["threads", "dask"], typer.Option(help="Threads of this process, or workers of Dask.")]
AnyEngine = Annotated[
    Literal["threads", "dask", "cuda"], typer.Option(help="Threads of this process, workers of Dask, or a GPU.")
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler; by default Dask's workers are on this machine.")
]
Exact = Annotated[
    bool, typer.Option("--exact", help="Refuse workers whose libraries or processor differ from the others'.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines, instead of tables.")]
Workers = Annotated[int | None, typer.Option(min=1, max=4096, help="Number of threads; by default one per core.")]
Guardrails = Annotated[int, typer.Option(help="Number of guardrails (m).")]
Constraints = Annotated[int | None, typer.Option("--constraints", hidden=True, help="Old name of --guardrails.")]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
    workers: Workers = None,
    live: Annotated[bool, typer.Option("--live", help="Run the decision service on simulated traffic.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the traffic of --live.")] = 1,
) -> None:
    """Route requests among language models with and without guardrails; print a table and write a report.

    With --live: start the service, drive traffic through it, let a backend become slow, and show the alarm, the hold
    and the new epoch.
    """
    if live:
        from surefoot.cli.live_demo import carry_out as carry_out_live

        carry_out_live(seed)
        return
    from surefoot.cli.studies import DEMO, carry_out

    carry_out(
        DEMO, Path(), "demo.toml", out, workers, shlex.join(["surefoot", "demo", "--out", str(out)]), as_story=True
    )


@app.command()
def run(
    study: Annotated[Path, typer.Argument(help="A study file; `surefoot init` writes an example.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the results; by default runs/NAME.")] = None,
    workers: Workers = None,
    engine: AnyEngine = "threads",
    scheduler: Scheduler = None,
    exact: Exact = False,
    figures: Figures = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate its size and duration, from a few runs; keep no results.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a study: write its results, provenance.json, report.html and figures. Run it again to resume or extend it."""
    from surefoot.cli.studies import carry_out, print_estimate, read_text

    out = out or Path("runs") / study.stem
    if dry_run:
        print_estimate(
            read_text(study),
            study.parent,
            study.name,
            out,
            workers,
            json,
            engine=engine,
            scheduler=scheduler,
            exact=exact,
        )
        return
    carry_out(
        read_text(study),
        study.parent,
        study.name,
        out,
        workers,
        shlex.join(["surefoot", "run", str(study), "--out", str(out), *(["--engine", engine] * (engine == "cuda"))]),
        figures=figures,
        engine=engine,
        scheduler=scheduler,
        exact=exact,
        as_json=json,
    )


@app.command()
def init(path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("study.toml")) -> None:
    """Write an example of a study file, with comments."""
    from surefoot.cli.studies import write_example

    write_example(path)


@app.command()
def league(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/league"),
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 10,
    horizon: Annotated[int, typer.Option(min=3, help="Rounds, in every scenario.")] = 20_000,
    workers: Workers = None,
    engine: EngineName = "threads",
    scheduler: Scheduler = None,
    exact: Exact = False,
    figures: Figures = None,
    json: Json = False,
) -> None:
    """Run every policy in every built-in scenario but the rehearsals: standings, maps and a table of each scenario."""
    from surefoot.cli.studies import carry_out, league_study

    command = shlex.join(["surefoot", "league", "--out", str(out), "--seeds", str(seeds), "--horizon", str(horizon)])
    carry_out(
        league_study(seeds, horizon),
        Path(),
        "league.toml",
        out,
        workers,
        command,
        figures=figures,
        engine=engine,
        scheduler=scheduler,
        exact=exact,
        as_json=json,
    )


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="What `surefoot run` or `surefoot export` wrote.")],
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            help="Scenarios to draw, such as those of a grid.", show_default=False, autocompletion=complete_scenario
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show the results in a folder, and how they were made.

    If you name scenarios, draw all their figures. If the folder is an export, draw its report again.
    """
    from surefoot.cli.studies import show_folder

    show_folder(folder, scenarios or [], json)


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="An experiment file, in TOML or JSON.")], json: Json = False
) -> None:
    """Check an experiment file: print what it promises, or what is wrong with it in one sentence."""
    from surefoot.cli.experiments import print_experiment

    print_experiment(path, json)


@app.command()
def scenarios(json: Json = False) -> None:
    """List the built-in scenarios and their parameters."""
    from surefoot.cli.lists import print_scenarios

    print_scenarios(json)


@app.command()
def policies(json: Json = False) -> None:
    """List the policies and their options."""
    from surefoot.cli.lists import print_policies

    print_policies(json)


@app.command()
def warm(
    policies: Annotated[
        list[str] | None,
        typer.Argument(
            help="Which policies (`surefoot policies` lists them); by default solb.",
            show_default=False,
            autocompletion=complete_policy,
        ),
    ] = None,
) -> None:
    """Compile the code of policies ahead of time, for instance while building a container image."""
    from surefoot.cli.warm import carry_out

    carry_out(policies or ["solb"])


@app.command()
def bounds(
    arms: Annotated[int, typer.Option(help="Number of arms (K).")] = 5,
    guardrails: Guardrails = 1,
    horizon: Annotated[int, typer.Option(help="Number of rounds (T).")] = 100_000,
    delta: Annotated[float, typer.Option(help="Probability of failure.")] = 0.05,
    margin: Annotated[float, typer.Option(help="How far the safe strategy stays below the nearest limit (rho).")] = 0.3,
    omega: Annotated[float, typer.Option(min=0, max=1, help="Loss per round of the best safe strategy.")] = 0.1,
    benchmark_loss: Annotated[
        float | None, typer.Option(help="Its total loss (L*), in place of omega.", show_default=False)
    ] = None,
    gap: Annotated[
        float, typer.Option(help="How much more the safe strategy loses per round, as a root mean square (Delta).")
    ] = 0.2,
    threshold: Annotated[float, typer.Option(help="The smallest limit (alpha).")] = 0.5,
    json: Json = False,
    constraints: Constraints = None,
) -> None:
    """Print the bounds of the theorems with their constants, and from which horizon on they say something."""
    from surefoot.cli.bounds import print_bounds

    total = omega * horizon if benchmark_loss is None else benchmark_loss
    print_bounds(
        arms, guardrails if constraints is None else constraints, horizon, delta, margin, total, gap, threshold, json
    )


@app.command("plan", hidden=True)  # its old name
@app.command()
def forecast(
    arms: Annotated[int, typer.Option(help="Number of arms (K).")] = 5,
    guardrails: Guardrails = 1,
    margin: Annotated[float, typer.Option(help="How far the safe strategy stays below the nearest limit (rho).")] = 0.3,
    delta: Annotated[float, typer.Option(help="Probability of failure.")] = 0.05,
    traffic: Annotated[float, typer.Option(help="Decisions a day.")] = 10_000,
    deviation: Annotated[float, typer.Option(help="Standard deviation of a cost; 0.5 is the worst case.")] = 0.5,
    gap: Annotated[float, typer.Option(help="How much more the safe strategy loses a round than the best.")] = 0.2,
    threshold: Annotated[float, typer.Option(help="The smallest limit (alpha).")] = 0.5,
    slack: Annotated[
        float, typer.Option(help="By how much the best strategy stays below the limits; 0 if they hold it back.")
    ] = 0.0,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Also simulate SOLB in a matching scenario, which takes seconds.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=2, max=100, help="Number of simulated runs.")] = 10,
    json: Json = False,
    constraints: Constraints = None,
) -> None:
    """Forecast how long SOLB holds back, what that costs, and when it starts to pay."""
    from surefoot.cli.forecast import print_forecast

    runs, m = seeds if simulate else 0, guardrails if constraints is None else constraints
    print_forecast(arms, m, margin, delta, traffic, deviation, gap, threshold, slack, runs, json)


@app.command()
def verify(
    claims: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names of claims, such as 'Theorem L'; by default all.",
            show_default=False,
            autocompletion=complete_claim,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="Many runs, or as few as will do.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="Processes (threads with --engine); by default one per core.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the evidence to this Markdown file; with --engine, a CSV file.")
    ] = None,
    json: Json = False,
    engine: Annotated[
        Literal["threads", "cuda"] | None,
        typer.Option(help="Test no claims: count unsafe runs of hard policies in very many runs, on threads or a GPU."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, help="With --engine: runs of each policy.", show_default="1000"),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=100, help="With --engine: rounds of a run.", show_default="100000")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="With --engine: a policy; by default all hard ones.", autocompletion=complete_hard),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(help="With --engine: a scenario; by default all.", autocompletion=complete_counted),
    ] = None,
) -> None:
    """Test every claim, the paper's and our own, by simulation, together with mutations that must fail."""
    from surefoot.cli.verify import carry_out, check_options, try_at_scale

    check_options(
        engine,
        {"claims": claims, "full": full},
        {"runs": runs, "rounds": rounds, "policy": policy, "scenario": scenario},
        workers,
    )
    if engine is not None:
        try_at_scale(policy or [], scenario or [], runs or 1_000, rounds or 100_000, engine, workers, out, json)
        return
    carry_out(claims or [], full, workers, out, json)


Db = Annotated[str, typer.Option(help="A SQLite file, or the address of a PostgreSQL database.", envvar="SUREFOOT_DB")]
DB = "surefoot.db"
Name = Annotated[str, typer.Argument(help="The name of an experiment.")]

keys = typer.Typer(help="Make, list and revoke the keys of the service.", no_args_is_help=True)
db = typer.Typer(help="Look after the database of the service.", no_args_is_help=True)
app.add_typer(keys, name="keys")
app.add_typer(db, name="db")


@app.command()
def serve(
    db: Db = DB,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0: any that is free.")] = 8000,
    rate: Annotated[float, typer.Option(min=0.01, help="Requests a second that each key may send.")] = 5_000.0,
    role: Annotated[
        str,
        typer.Option(
            help="all; or, for many processes on one database, learner or decider.",
            envvar="SUREFOOT_ROLE",
            autocompletion=lambda: ["all", "decider", "learner"],
        ),
    ] = "all",
) -> None:
    """Run the decision service over HTTP."""
    from surefoot.cli.service import run_service

    run_service(db, host, port, rate, role)


@app.command()
def replay(experiment: Name, db: Db = DB) -> None:
    """Compute the state of an experiment from its whole log, and compare it with that from the newest checkpoint."""
    from surefoot.cli.service import check_replay

    check_replay(db, experiment)


@app.command()
def export(experiment: Name, out: Annotated[Path, typer.Option(help="Folder to write to.")], db: Db = DB) -> None:
    """Write the settled rounds of an experiment as Parquet and NDJSON, with its history and a report."""
    from surefoot.cli.service import export

    export(db, experiment, out)


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="Who or what the key is for; the audit shows this name.")],
    role: Annotated[
        list[str],
        typer.Option(
            help="What it allows: decide, feedback, read or admin; may be repeated.",
            autocompletion=lambda: ["decide", "feedback", "read", "admin"],
        ),
    ],
    experiment: Annotated[str | None, typer.Option(help="Allow this experiment only; by default all.")] = None,
    days: Annotated[float | None, typer.Option(help="Days until it expires; by default it does not.")] = None,
    db: Db = DB,
) -> None:
    """Make a key and print it, once."""
    from surefoot.cli.service import create

    create(db, name, role, experiment, days)


@keys.command("list")
def list_keys(db: Db = DB, json: Json = False) -> None:
    """List the keys: what they allow, never the keys themselves."""
    from surefoot.cli.service import list_all

    list_all(db, json)


@keys.command()
def revoke(id: Annotated[int, typer.Argument(help="The number of the key, from the list.")], db: Db = DB) -> None:
    """Revoke a key."""
    from surefoot.cli.service import revoke

    revoke(db, id)


@db.command()
def upgrade(db: Db = DB) -> None:
    """Make the tables, or bring them to the version of this program."""
    from surefoot.cli.service import upgrade_database

    upgrade_database(db)
