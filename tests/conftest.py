"""What holds for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from distributed import LocalCluster
    from playwright.sync_api import Browser

    from s3 import Store

# A machine that others use too may take any time for an example; slowness is what benchmarks are for.
settings.register_profile("holotrace", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("holotrace")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from browsers import chromium

    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def server() -> Iterator[Store]:
    from s3 import serving

    with serving() as store:
        yield store


@pytest.fixture
def store(server: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A bucket that the store of every s3:// is, for this process and those it starts."""
    from s3 import forgotten

    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    with forgotten():
        yield server


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    import dask
    from distributed import LocalCluster

    with (
        # Whatever happens to its workers, a task comes to an end.
        dask.config.set(
            {"distributed.scheduler.allowed-failures": 2, "distributed.scheduler.no-workers-timeout": "60s"}
        ),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
    ):
        yield cluster
