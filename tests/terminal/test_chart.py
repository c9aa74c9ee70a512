from plmkit.terminal.chart import columns, curve


def test_a_falling_line_runs_from_the_top_left_to_the_bottom_right():
    assert curve([(0, 3.0), (1, 2.0), (2, 1.0), (3, 0.0)], width=2, height=1) == ["   0.00 ┤⠑⢄"]
    top, bottom = curve([(0, 8.0), (1, 1.0)], width=1, height=2)
    assert (top, bottom) == ("   8.00 ┤⢱", "   1.00 ┤⢸")


def test_a_part_has_the_mean_of_its_points_or_what_was_before_it():
    assert columns([(0, 4.0), (1, 2.0), (7, 1.0), (8, 1.0)], 4) == [3.0, 3.0, 3.0, 1.0]


def test_a_flat_line_is_drawn_and_a_single_point_is_not():
    assert curve([(0, 2.0), (1, 2.0)], width=1, height=1) == ["   2.00 ┤⠉"]
    assert curve([(0, 2.0)]) == []
