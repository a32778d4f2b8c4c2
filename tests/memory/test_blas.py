"""One thread for BLAS while a search runs, and the former number afterwards."""

import sys

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from intentmem.memory import blas
from intentmem.memory.blas import one_blas_thread


def threads() -> set[int]:
    return {one["num_threads"] for one in ThreadpoolController().info() if one["user_api"] == "blas"}


def test_the_limit_holds_until_the_last_of_those_who_asked_for_it_is_done() -> None:
    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        with one_blas_thread():
            with one_blas_thread():
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == before


def test_a_library_that_is_loaded_later_is_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with one_blas_thread():
        pass
    looked: list[bool] = []
    monkeypatch.setattr(blas, "ThreadpoolController", lambda: looked.append(True) or ThreadpoolController())
    with one_blas_thread():
        assert not looked
    monkeypatch.setitem(sys.modules, "brings_blas_of_its_own", sys)
    with one_blas_thread():
        assert looked and threads() == {1}


def test_the_limit_is_lifted_when_the_block_fails() -> None:
    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        with pytest.raises(RuntimeError), one_blas_thread():
            raise RuntimeError
        assert threads() == before
