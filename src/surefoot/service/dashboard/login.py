"""The way in and out, and scripts and styles, which need no login."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from surefoot.service.dashboard.frame import Frame, Visit, see, sent
from surefoot.service.dashboard.session import check_origin
from surefoot.service.problems import Problem, problem_of


class Login:
    """Logging in and out.

    Parameters
    ----------
    frame
        What all pages have in common.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    async def ask_login(self, request: Request) -> Response:
        """The page to log in."""
        return await self._frame.render(request, "login.html", None, back=local(request.query_params.get("next", "")))

    async def login(self, request: Request) -> Response:
        """Exchange a key for a cookie."""
        back = ""
        try:
            check_origin(request)
            form = await sent(request)
            back = local(form.get("next", [""])[-1])
            response = see(back or "/")
            await self._frame.sessions.begin(request, form.get("key", [""])[-1].strip(), response)
            return response
        except Exception as error:
            problem = problem_of(error)
            found = await self._frame.render(
                request, "login.html", None, problem.status, back=back, error=problem.detail
            )
            if problem.retry_after is not None:
                found.headers["Retry-After"] = str(max(1, round(problem.retry_after)))
            return found

    async def logout(self, visit: Visit) -> Response:
        """End the session."""
        response = see("/login")
        await self._frame.sessions.end(visit.request, response)
        return response

    async def static(self, request: Request) -> Response:
        """Scripts and styles."""
        try:
            return await self._frame.run(partial(self._frame.assets.response, request))
        except Problem as problem:
            return await self._frame.failure(request, problem, None)


def local(path: str) -> str:
    """The path, if it is one of this site; a login must not lead elsewhere.

    Examples
    --------
    >>> local("/experiments/x?q=1"), local("//elsewhere.example"), local("https://elsewhere.example")
    ('/experiments/x?q=1', '', '')
    """
    fine = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if fine and not path.startswith(("/login", "/logout")) else ""
