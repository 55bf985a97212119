"""What is measured at other sizes is the number that decides: of pictures, the answer over all views."""

import math

from tests.training.test_images import model_of, plain

from equiscope.comparison.measurements import RunMeasurements, extrapolations, read_measurements, write_measurements
from equiscope.record.comparison import Extrapolation
from equiscope.training import open_task, recipe


def test_pictures_of_other_sizes_are_seen_in_all_views(tmp_path):
    made = open_task(recipe(plain(tmp_path, data={"views": {"flip": True, "shift": 1}, "test_held_out": 12})))
    model = model_of(made)
    final, alone = made.final(model, "test"), made.evaluate(model, "test")
    assert final["accuracy"] != alone["accuracy"]
    assert {one.factor: one.value for one in extrapolations(model, made, tmp_path)}[1.0] == final["accuracy"]


def test_a_number_that_is_none_is_kept_as_none(tmp_path):
    write_measurements(
        RunMeasurements(extrapolation=[Extrapolation(factor=8, size=512, value=math.nan, values={"loss": math.nan})]), tmp_path
    )
    assert read_measurements(tmp_path).extrapolation == [Extrapolation(factor=8, size=512, values={"loss": None})]


def test_a_question_says_the_sizes_at_which_pictures_are_read(tmp_path):
    made = open_task(recipe(plain(tmp_path)))
    found = list(extrapolations(model_of(made), made, tmp_path, [1, 2]))
    assert [(one.factor, one.size) for one in found] == [(1, made.format.size[0]), (2, 2 * made.format.size[0])]
    assert list(extrapolations(model_of(made), made, tmp_path, [])) == []
