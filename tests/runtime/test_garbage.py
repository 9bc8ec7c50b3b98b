"""Cycles are looked for rarely while the package compiles, and as before afterwards."""

import gc
import os
import threading

import pytest

from tl_dpnp.garbage import rarely_collected, unfreeze
from tl_dpnp.runtime.fresh_stack import on_fresh_stack, with_room

RARE, SELDOM = 50_000, 100


@pytest.fixture(params=[(700, 10, 10), (2000, 10, 0)])
def usual(request):
    before = gc.get_threshold()
    gc.set_threshold(*request.param)
    yield gc.get_threshold()
    gc.set_threshold(*before)


@pytest.mark.parametrize("call", [on_fresh_stack, with_room])
def test_work_is_collected_rarely(usual, call):
    assert call(gc.get_threshold) == (RARE, SELDOM, *usual[2:])
    assert gc.get_threshold() == usual


def test_errors_leave_the_usual_thresholds(usual):
    with pytest.raises(ZeroDivisionError):
        with_room(lambda: 1 / 0)
    assert gc.get_threshold() == usual


def test_the_last_of_several_restores(usual):
    with rarely_collected():
        with rarely_collected():
            pass
        assert gc.get_threshold()[0] == RARE
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("own", [(0, 10, 10), (100_000, 5, 5)])
def test_who_collects_more_rarely_keeps_that(usual, own):
    gc.set_threshold(*own)
    own = gc.get_threshold()
    with rarely_collected():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_what_is_set_meanwhile_stays(usual):
    with rarely_collected():
        gc.set_threshold(300, 4, 4)
        own = gc.get_threshold()
    assert gc.get_threshold() == own


def test_threads_come_and_go(usual):
    def work():
        for _ in range(2000):
            with rarely_collected():
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.get_threshold() == usual


def test_the_child_of_a_fork_has_the_usual_thresholds(usual):
    with rarely_collected():
        child = os.fork()
        if not child:
            os._exit(gc.get_threshold() != usual)
    assert os.waitpid(child, 0)[1] == 0


def test_what_python_itself_freezes_is_not_frozen_by_hand():
    """Python 3.12 does, and each fused function that keeps arrays in objects warned of it; each fork froze all."""
    gc.unfreeze()
    gc.collect()
    assert not unfreeze()
    assert not unfreeze()
    gc.freeze()
    assert unfreeze()
    assert gc.get_freeze_count() == 0
