"""The rounds of an experiment, as outsiders read them."""

from __future__ import annotations

from typing import Any

from surefoot.experiments.events import Settled, id_of


def shown(one: Settled, prefix: str) -> dict[str, Any]:
    """A round with the id of its decision.

    Parameters
    ----------
    prefix
        How the ids of the experiment's decisions begin.
    """
    found = one._asdict()
    number = found.pop("decision")
    return {"seq": found.pop("seq"), "id": None if number is None else id_of(prefix, number), **found}
