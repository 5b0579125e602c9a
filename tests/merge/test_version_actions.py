"""What versions do to columns, as kept for the columns that ask the same."""

import gc
import weakref

import numpy as np
import pytest

from lakehouse_core.merge.actions import Action
from lakehouse_core.merge.layers import Layers
from lakehouse_core.merge.order import KeyOrder
from lakehouse_core.merge.version_actions import VersionActions


@pytest.mark.parametrize("actions", [None, [Action.ADD, Action.RETRACT, Action.SET_RETRACT]])
def test_the_arrays_of_a_chunk_go_with_it_and_do_not_wait_for_the_garbage_collector(actions):
    order = KeyOrder(np.arange(3), np.array([1, 2]))
    made = None if actions is None else np.array(actions, dtype=np.uint8)
    acting = VersionActions(order, Layers(order), np.array([True, False]), made)
    without = acting.without_retracts

    assert without.does(Action.ADD, Action.SET).tolist() == ([True] * 3 if actions is None else [True, True, False])
    gone = weakref.ref(acting)
    gc.disable()
    try:
        del acting, without
        assert gone() is None
    finally:
        gc.enable()
