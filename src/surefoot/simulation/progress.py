"""A progress bar on stderr."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

from surefoot.extras import needed_by


class Bar:
    """Shows the work done, the speed and the time left; by default, only if stderr is a terminal."""

    def __init__(self, what: str, total: int, shown: bool | None = None, unit: str = "rounds") -> None:
        self._what, self._total, self._unit = what, total, unit
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._progress: Any = None

    def __enter__(self) -> Self:
        if self._shown:
            with needed_by("a progress bar"):
                from rich.console import Console
                from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[rate]}"),
            )
            self._progress = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(self._what, total=self._total, rate="")
            self._progress.start()
        return self

    def describe(self, what: str) -> None:
        """Show what is being done."""
        if self._progress is not None:
            self._progress.update(self._task, description=what)

    def advance(self, more: int) -> None:
        """Add to the work done."""
        if self._progress is not None:
            task = self._progress.tasks[0]
            if self._unit == "rounds":
                rate = f"{task.speed / 1e6:.1f} million rounds/s" if task.speed else ""
            else:
                rate = f"{task.completed + more:.0f} of {self._total} {self._unit}"
            self._progress.update(self._task, advance=more, rate=rate)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
