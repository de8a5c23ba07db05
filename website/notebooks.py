"""Tutorials as notebooks: the text as it is, each session as a cell without prompts and without what it printed."""

from __future__ import annotations

import doctest
import json
import re
from typing import Any

SESSION = re.compile(r"^```python\n(>>> .*?)^```\n?", re.M | re.S)


def notebook(page: str) -> str:
    """The notebook of a tutorial, in Jupyter's format 4.5, not yet run."""
    cells: list[dict[str, Any]] = []
    for number, part in enumerate(SESSION.split(page)):
        session = number % 2 == 1
        text = code(part) if session else part.strip()
        if text:
            cell: dict[str, Any] = {"id": f"cell-{len(cells)}", "metadata": {}, "source": text}
            extra: dict[str, Any] = {"cell_type": "code", "execution_count": None, "outputs": []}
            cells.append(cell | (extra if session else {"cell_type": "markdown"}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def code(session: str) -> str:
    """What a session types, without prompts and answers."""
    return "".join(example.source for example in doctest.DocTestParser().get_examples(session)).rstrip()
