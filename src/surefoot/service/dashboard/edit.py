"""The form for a new experiment, and for a new epoch of one."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from surefoot.experiments.experiment import live_policies
from surefoot.service import models
from surefoot.service.access import check_role
from surefoot.service.dashboard.form import Checked, Form, one_line
from surefoot.service.dashboard.frame import Frame, Visit, see
from surefoot.service.dashboard.look import Source
from surefoot.service.dashboard.words import number_typed
from surefoot.service.host import Host
from surefoot.service.models import parse
from surefoot.service.problems import Problem, problem_of


class Edit:
    """Begins experiments and epochs.

    Parameters
    ----------
    frame
        What all pages have in common.
    host
        Carries it out.
    source
        Knows the present values.
    """

    def __init__(self, frame: Frame, host: Host, source: Source) -> None:
        self._frame, self._host, self._source = frame, host, source

    async def ask_new(self, visit: Visit) -> Response:
        """The form for a new experiment."""
        key, form = visit.session.key, Form()
        check_role(key, ("admin",), key.experiment)
        if key.experiment is not None:
            form.values["name"] = key.experiment
        return await self._form(visit, form, Checked(None, {}))

    async def new(self, visit: Visit) -> Response:
        """Check the form; begin the experiment if that was asked for."""
        key = visit.session.key
        check_role(key, ("admin",), key.experiment)
        form, checked = await self._checked(visit)
        experiment = checked.experiment
        if visit.text("do") != "create" or experiment is None:
            return await self._form(visit, form, checked)
        check_role(key, ("admin",), experiment.name)
        try:
            mode = "shadow" if form.values["mode"] == "shadow" else "live"
            await self._host.create(experiment, mode, visit.who)
        except Exception as error:
            return await self._form(visit, form, checked, problem_of(error))
        return see(f"/experiments/{experiment.name}")

    async def ask_change(self, visit: Visit) -> Response:
        """The form for a new epoch, filled in."""
        detail = await self._source.detail(visit.name, False)
        data = detail.experiment
        objective = data["objective"]
        named = [objective.get("maximise") or objective.get("minimise"), *(one["name"] for one in data["guardrails"])]
        if not one_line(str(name) for name in named):
            raise Problem(409, "conflict", "a name has a line break, which a form cannot hold; use PATCH over HTTP")
        form = Form.of(data)
        form.values["epoch"] = str(detail.summary.epoch)
        return await self._form(visit, form, await self._frame.run(form.check), name=visit.name)

    async def change(self, visit: Visit) -> Response:
        """Check the form; begin the epoch if that was asked for."""
        visit.form["name"] = [visit.name]
        form, checked = await self._checked(visit)
        experiment = checked.experiment
        if visit.text("do") not in ("change", "resume") or experiment is None:
            return await self._form(visit, form, checked, name=visit.name)
        data = experiment.to_dict()
        try:
            reason = parse(models.ReasonBody, msgspec.json.encode({"reason": visit.text("reason")})).reason
            if visit.text("do") == "resume":
                await self._host.ask(visit.name, "resume", visit.who, reason=reason, experiment=data)
            else:
                await self._host.ask(
                    visit.name, "change", visit.who, fields={key: data[key] for key in data if key != "name"},
                    reason=reason, keep=form.values["keep"] == "yes", epoch=visit.text("epoch"),
                )  # fmt: skip
        except Exception as error:
            problem = problem_of(error)
            if problem.status == 412:  # which speaks of the header that this form stands for
                problem = Problem(412, problem.kind, "somebody has begun another epoch meanwhile; load the page again")
            return await self._form(visit, form, checked, problem, visit.name)
        return see(f"/experiments/{visit.name}")

    async def _checked(self, visit: Visit) -> tuple[Form, Checked]:
        form = Form.sent(visit.form)
        if visit.text("do") == "rows":
            return form, Checked(None, {})
        return form, await self._frame.run(form.check)

    async def _form(
        self, visit: Visit, form: Form, checked: Checked, problem: Problem | None = None, name: str | None = None
    ) -> Response:
        status = problem.status if problem else 422 if checked.errors and visit.text("do") != "check" else 200
        errors = dict(checked.errors)
        if problem is not None and problem.pointer == "/reason":
            errors["reason"] = problem.detail
        return await self._frame.page(
            visit, "form.html", status, form=form, rows=form.rows(), checked=checked, errors=errors, name=name,
            policies=[(one, one) for one in live_policies()], traffic=traffic(form.values.get("traffic", "")),
            problem=problem.detail if problem and "reason" not in errors else None,
        )  # fmt: skip


def traffic(typed: str) -> float | None:
    """Decisions a day, if they were typed."""
    found = number_typed(typed)
    return found if isinstance(found, float) and 0 < found < 1e15 else None
