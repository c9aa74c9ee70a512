"""Orders and classes: 1, 3, 9, 33, 153 of them, one to one."""

from itertools import permutations

import numpy as np
import pytest

from plmkit.data.orders import classes_of, order_classes, order_of


def test_the_orders_of_up_to_five_parts_are_1_3_9_33_and_153():
    assert [order_classes(parts) for parts in range(1, 6)] == [1, 3, 9, 33, 153]


def test_the_orders_of_three_parts_are_classes_3_to_8():
    numbered = {"123": 3, "132": 4, "213": 5, "231": 6, "312": 7, "321": 8, "12": 1, "21": 2, "1": 0}
    for order, label in numbered.items():
        parts = np.array([[int(part) - 1 for part in order]])
        assert classes_of(parts).tolist() == [label]
        assert "".join(str(1 + part) for part in order_of(label)) == order


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 5])
def test_every_order_has_a_class_of_its_own_and_every_class_an_order(parts):
    orders = [order for count in range(1, parts + 1) for order in permutations(range(count))]
    labels = [int(classes_of(np.array([order]))[0]) for order in orders]
    assert sorted(labels) == list(range(order_classes(parts)))
    assert [order_of(label) for label in labels] == orders
