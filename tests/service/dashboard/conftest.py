"""The pages on made-up data, over HTTP in this process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.testclient import TestClient

from surefoot.service.host import Host
from tests.service.conftest import Api, started
from tests.service.dashboard.fake import MADE, PREFIXES, Fake


class Browser:
    """Somebody who looks at pages, without scripts."""

    def __init__(self, api: Api, key: str | None = None) -> None:
        self.api = api
        self.client = TestClient(api.app, follow_redirects=False, headers={"Accept": "text/html"})
        self.client.portal = api.client.portal  # one event loop for all
        if key is not None:
            answer = self.login(key)
            assert answer.status_code == 303, answer.text

    def login(self, key: str, **fields: str) -> Any:
        return self.client.post("/login", data={"key": key, **fields})

    def get(self, path: str, **options: Any) -> Any:
        return self.client.get(path, **options)

    def text(self, path: str) -> str:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.get("/").text)
        assert found
        return found.group(1)

    def post(self, path: str, **fields: Any) -> Any:
        """Send a form of this session."""
        return self.client.post(path, data={"csrf": self.csrf, **fields})


@contextmanager
def known(names: list[str]) -> Iterator[None]:
    """The hosts know these experiments, too."""
    real: Callable[[Host], list[str]] = vars(Host)["names"].fget
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Host, "names", property(lambda host: [*real(host), *names]))
        yield


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """The service with an experiment of its own, "routing", and made-up ones beside it."""
    with known([*MADE]):
        for api in started(str(tmp_path_factory.mktemp("site") / "surefoot.db"), source=Fake):
            api.create()
            api.host.prefixes |= PREFIXES
            yield api


@pytest.fixture
def admin(site: Api) -> Browser:
    site.clock.time += 60.0  # attempts to log in are counted
    return Browser(site, site.key)
