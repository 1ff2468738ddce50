from collections.abc import Iterator

import pytest

from tests.api.server import Server, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("tessera")) as made:
        yield made
