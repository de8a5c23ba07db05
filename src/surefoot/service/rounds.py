"""The rounds of an experiment, as outsiders read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from surefoot.experiments.events import Changed, Created, Event, Log, id_of
from surefoot.experiments.experiment import Experiment
from surefoot.experiments.order import rounds


def settled_rounds(log: Log, prefix: str) -> Iterator[dict[str, Any]]:
    """Every settled round in the order in which rounds are learnt; what is missing counts as the worst case.

    Parameters
    ----------
    log
        The log of the experiment.
    prefix
        How the ids of its decisions begin.
    """
    experiment: Experiment

    def events() -> Iterator[tuple[int, Event]]:
        nonlocal experiment
        for number, event in log.read():
            if isinstance(event, Created | Changed):
                experiment = Experiment.from_dict(event.experiment)
            yield number, event

    for seq, one in enumerate(rounds(events()), 1):
        objective, outcome = experiment.objective, one.outcome
        loss = objective.cost(outcome[objective.name]) if objective.name in outcome else 1.0
        yield {
            "seq": seq,
            "id": None if one.number is None else id_of(prefix, one.number),
            "arm": one.arm,
            "propensity": one.propensity,
            "source": one.source,
            "loss": None if one.source == "observation" else loss,
            "costs": {
                guardrail.name: guardrail.cost(outcome[guardrail.name]) if guardrail.name in outcome else 1.0
                for guardrail in experiment.guardrails
            },
        }
