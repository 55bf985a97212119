"""What is measured at other sizes is the number that decides: of pictures, the answer over all views."""

from tests.train.test_images import model_of, plain

from equiscope.compare.after import beyond
from equiscope.train import open_task, recipe


def test_pictures_of_other_sizes_are_seen_in_all_views(tmp_path):
    made = open_task(recipe(plain(tmp_path, data={"views": {"flip": True, "shift": 1}, "tested": 12})))
    model = model_of(made)
    final, alone = made.final(model, "test"), made.evaluate(model, "test")
    assert final["accuracy"] != alone["accuracy"]
    assert {one.factor: one.value for one in beyond(model, made, tmp_path)}[1.0] == final["accuracy"]
