"""One job gives one report, wherever its traces are and whoever reads them."""

from __future__ import annotations

from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from polars.testing import assert_frame_equal

import holotrace
from holotrace import sample
from holotrace.discovery import Paths
from holotrace.present.report import Report
from holotrace.present.writers import report_writer
from pages import page
from s3 import Store
from xplane_files import capture

if TYPE_CHECKING:
    from distributed import LocalCluster


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("everywhere") / "job"
    sample.write(folder, ranks=3, steps=3, seed=4)
    return folder


def report(paths: Paths, executor: Executor | None = None) -> Report:
    return holotrace.open(paths, executor=executor).run(report_writer(Path("page.html")).analyses)


@pytest.mark.slow
def test_the_page_is_the_same_but_for_where_it_came_from(
    folder: Path, store: Store, tmp_path: Path, cluster: LocalCluster
) -> None:
    from distributed import Client

    url = store.put(folder, "everywhere/job")
    holotrace.convert(folder, tmp_path / "dataset")
    holotrace.convert(url, "s3://traces/everywhere/dataset")
    expected = report(folder)
    found = {
        "dataset": report(tmp_path / "dataset"),
        "store": report(url),
        "dataset in a store": report("s3://traces/everywhere/dataset"),
    }
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found["pool"] = report(folder, pool)
        found["dataset in a store by a pool"] = report("s3://traces/everywhere/dataset", pool)
    with Client(cluster) as client:
        found["dask"] = report(folder, client.get_executor(pure=False))
    for where, result in found.items():
        assert page(result) == page(expected), where
        assert_frame_equal(result.info.drop("load_ns", "file"), expected.info.drop("load_ns", "file"))


def _page(folder: Path) -> str:
    return page(report(folder))


@pytest.mark.slow
def test_each_process_makes_the_same_page(tmp_path: Path) -> None:
    # Polars numbers names, and orders what is equal, anew in each process.
    folder = capture("jax_cpu_multihost2x2", tmp_path)
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        first, *others = pool.map(_page, [folder] * 3, chunksize=1)
    assert others == [first, first]
