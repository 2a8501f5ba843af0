"""When garbage is looked for."""

import gc

import pytest

from holotrace.allocator import nothing_collected


def test_garbage_is_looked_for_again_after_modules_were_imported() -> None:
    with nothing_collected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_garbage_is_looked_for_again_after_an_import_failed() -> None:
    with pytest.raises(ImportError), nothing_collected():
        raise ImportError
    assert gc.isenabled()


def test_who_looks_for_no_garbage_keeps_it_so() -> None:
    gc.disable()
    try:
        with nothing_collected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
