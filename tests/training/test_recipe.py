"""A recipe's file: what is wrong in it is said with its line, and nothing that is wrong is let through."""

import re
from pathlib import Path

import msgspec
import pytest
from contract.schemas import kinds, meanings, recipes

from equiscope.errors import InputError
from equiscope.training import fields
from equiscope.training.reading import differences, merged, read_recipe, recipe

pytestmark = pytest.mark.quick

TEXT = """title = "A test"

[data]
task = "language"
train = "words.txt"
context = 8

[model]
width = 8
layers = 2

[model.block.attention]
heads = 2
position = "rope"

[budget]
steps = 20
batch = 4

[optimiser]
rate = 1e-3
warmup = 5
betas = [0.9, 0.99]

[small]
budget = { steps = 10 }
"""


@pytest.fixture
def written(tmp_path):
    """Write the recipe with some lines changed: written("steps = 20", "steps = 0") -> its path."""

    def write(*changes):
        text = TEXT
        for old, new in zip(changes[::2], changes[1::2], strict=True):
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "test.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def refusal(path, *changes, small=False):
    with pytest.raises(InputError) as error:
        read_recipe(path, list(changes), small)
    return str(error.value).removeprefix(f"{path}, ").replace(f"{path}", "FILE")


def test_a_recipe_is_read_with_its_defaults(written):
    found = read_recipe(written())
    assert (found.budget.steps, found.optimiser.schedule, found.engine.precision) == (20, "cosine", "float32")
    assert recipe(found.to_dict()) == found


def test_small_and_set_change_it_in_this_order(written):
    path = written()
    assert read_recipe(path, small=True).budget.steps == 10
    found = read_recipe(
        path, ["budget.steps=7", "data.tokens=bytes", "optimiser.betas=[0.8, 0.9]", "optimiser.clip=none"], small=True
    )
    assert (found.budget.steps, found.data.tokens, found.optimiser.betas, found.optimiser.clip) == (7, "bytes", (0.8, 0.9), None)


def test_set_puts_a_whole_table_in_the_place_of_one(written):
    path = written('position = "rope"', 'position = { scheme = "rope", base = 500 }')
    at = "model.block.attention.position"
    attention = read_recipe(path, [f'{at}={{scheme="alibi"}}']).model["block"]["attention"]
    assert attention == {"heads": 2, "position": {"scheme": "alibi"}}  # not ALiBi with RoPE's base
    assert read_recipe(path, [f"{at}.base=7"]).model["block"]["attention"]["position"] == {"scheme": "rope", "base": 7}
    assert read_recipe(path, ["model={width=4}"]).model == {"width": 4}
    assert read_recipe(path, ["budget={steps=9, batch=2}", "budget.batch=3"]).budget.batch == 3
    assert read_recipe(path).model["block"]["attention"]["position"]["base"] == 500


def test_set_takes_the_short_names_of_vary(written):
    path = written()
    assert read_recipe(path, ["position=alibi"]) == read_recipe(path, ["model.block.attention.position=alibi"])
    assert read_recipe(path, ["rate=3e-4", "steps=7"]) == read_recipe(path, ["optimiser.rate=3e-4", "budget.steps=7"])
    with pytest.raises(InputError, match=r"bias could be model.block.attention.bias or model.block.norm.bias or"):
        read_recipe(path, ["bias=true"])
    with pytest.raises(InputError, match=r"--set position=alib: model.block.attention.position: .*alib"):
        read_recipe(path, ["position=alib"])


def test_a_short_position_is_that_of_both_sides():
    path = Path(__file__).parents[2] / "recipes" / "multi30k.toml"
    model = read_recipe(path, ["position=alibi"]).model
    assert [side["block"]["attention"]["position"] for side in (model, model["encoder"])] == ["alibi", "alibi"]


def test_all_mistakes_are_reported_at_once(written):
    said = refusal(written("steps = 20", "steps = 0", "rate = 1e-3", "rate = -1", "batch = 4", "", "width = 8", 'width = "many"'))
    lines = said.splitlines()
    assert lines[0] == "The recipe has 4 mistakes:"
    assert [re.sub(r"FILE, line \d+: ", "", line).split()[0] for line in lines[1:]] == [
        "budget.steps", "budget.batch", "optimiser.rate", "model.width",
    ]  # fmt: skip
    assert all("but takes" in line or "it takes" in line for line in lines[1:])


WRONG = [
    ("steps = 20", "steps = 0", "line 17: budget.steps is 0, but takes a whole number from 1 to 1,000,000,000."),
    ("steps = 20", 'steps = "many"', 'line 17: budget.steps is "many", but takes a whole number from 1 to 1,000,000,000.'),
    ("steps = 20", "steps = 2.5", "line 17: budget.steps is 2.5, but takes a whole number from 1 to 1,000,000,000."),
    ("steps = 20", "stepz = 20", "line 17: there is no field budget.stepz. Did you mean steps? Known: steps, batch,"),
    ("batch = 4", "", "line 16: budget.batch is missing: it takes a whole number from 1 to 1,000,000."),
    ("batch = 4", "batch = 4\naccumulate = 5", "line 19: budget.accumulate is 5, but budget.batch is 4: a turn"),
    ("warmup = 5", "warmup = 20", "line 22: optimiser.warmup is 20, but budget.steps is 20: the rate"),
    ("[budget]", "[bugdet]", "line 16: there is no field bugdet. Did you mean budget? Known: title,"),
    ('title = "A test"', "title = 3", "line 1: title is 3, but takes one line of text in quotes that is not empty."),
    ("rate = 1e-3", "rate = -1", "line 21: optimiser.rate is -1, but takes a number above 0."),
    ("rate = 1e-3", "rate = inf", "line 21: optimiser.rate is inf, but takes a finite number."),
    ("rate = 1e-3", "rate = nan", "line 21: optimiser.rate is NaN, but takes a number above 0."),
    ("rate = 1e-3", 'kind = "sgd"', 'line 21: optimiser.kind is "sgd", but takes "adamw" or "muon".'),
    ("rate = 1e-3", "clip = 0", 'line 21: optimiser.clip is 0, but takes a number above 0 or "none".'),
    ("[0.9, 0.99]", "[0.9]", "line 23: optimiser.betas is [0.9], but takes a list of 2, each a number of 0 or more"),
    ("[0.9, 0.99]", "[0.9, 1.0]", "line 23: optimiser.betas[1] is 1.0, but takes a number of 0 or more and below 1."),
    ("context = 8", "context = 0", "line 6: data.context is 0, but takes a whole number of 2 or more."),
    ("context = 8", "", "line 3: data.context is missing: it takes a whole number of 2 or more."),
    ("context = 8", "contxt = 8", "line 6: there is no field data.contxt. Did you mean context? Known: train,"),
    ('task = "language"', 'task = "speech"', 'line 4: data.task is "speech", but takes "language" or "translation" or'),
    ('task = "language"', "task = { a = 1 }", "line 4: data.task"),
    ('task = "language"', "", 'line 3: data.task is missing: it takes "language" or "translation" or'),
    ("width = 8", "", "line 8: model.width is missing: it takes a whole number of 1 or more. Or set a model.preset"),
    ("width = 8", 'preset = "gpt3"', "line 9: There is no preset called 'gpt3'. Did you mean gpt2? Known:"),
    ("width = 8", "start = 3", "line 9: model.start is 3, but takes a folder, as a text in quotes."),
    ("width = 8", 'start = "nowhere"', 'line 9: model.start is "nowhere", but there is no such folder, beside the recipe or here.'),
    ("layers = 2", "layerz = 2", "line 10: there is no field model.layerz. Did you mean layers? Known:"),
    ("heads = 2", "heads = 0", "line 13: model.block.attention.heads is 0, but takes a whole number of 1 or more."),
    ("heads = 2", "headz = 2", "line 13: there is no field model.block.attention.headz. Did you mean heads? Known:"),
    ('"rope"', '"rop"', "line 14: model.block.attention.position: There is no position scheme called 'rop'. Did you mean rope?"),
    ('"rope"', '{ name = "rope" }', "line 14: model.block.attention.position: The object of a position scheme"),
    ('"rope"', '{ scheme = "rope", bas = 1 }', "line 14: model.block.attention.position: There is no setting of rope"),
    ("[model]", "[model", "FILE is not TOML: "),
    ("width = 8", "width = 8\rheads = 2", "FILE is not TOML: it has lines that end in a carriage return alone. Convert it: tr"),
    ('"A test"', '""', 'line 1: title is "", but takes one line of text in quotes that is not empty.'),
    ('"A test"', '"a\\u0000b"', "line 1: title is"),
    ("steps = 20", "steps = 20\n'' = 1", 'line 16: there is no field budget."". Known: steps, batch,'),
    ("steps = 20", "steps = 1000000000001", "line 17: budget.steps is 1000000000001, but takes a whole number from 1 to"),
    ("width = 8", "width = 8\n'a b' = 1", 'line 8: there is no field model."a b". Known:'),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "sentence"), WRONG, ids=[f"{new or 'without'} {old}" for old, new, _ in WRONG])
def test_what_is_wrong_is_said_with_its_line(written, old, new, sentence):
    assert refusal(written(old, new)).startswith(sentence)


SET = [
    ("budget.steps", "--set takes field=value, such as optimiser.rate=3e-4, but got 'budget.steps'."),
    ("=3", "--set takes field=value"),
    ("budget..steps=3", "--set takes field=value"),
    ("budget.steps=0", "--set budget.steps=0: budget.steps is 0, but takes a whole number from 1 to 1,000,000,000."),
    ("budget.stps=3", "--set budget.stps=3: there is no field budget.stps. Did you mean steps?"),
    ("budget=3", "--set budget=3: budget is 3, but takes a table with steps, batch, accumulate, minutes."),
    ("learning_rate=3", "--set learning_rate=3: there is no field learning_rate. Did you mean rate?"),
    ("warmupp=3", "--set warmupp=3: there is no field warmupp. Did you mean warmup or optimiser.warmup?"),
    ("model.heads=4", "--set model.heads=4: there is no field model.heads. Did you mean model.block.attention.heads? Known: block"),
    ("norm=none", "--set norm=none: norm could be model.input.norm or model.block.norm or model.output.norm. Write more"),
    ("data=3", '--set data=3: data is 3, but takes a table whose field task is "language" or "translation" or "texts" or'),
    ("bugdet.steps=3", "--set bugdet.steps=3: there is no field bugdet. Did you mean budget?"),
    ("optimiser.betas=[0.9", "--set: [0.9 is not a value of TOML:"),
    ("optimiser.warmup=30", "--set optimiser.warmup=30: optimiser.warmup is 30, but budget.steps is 20"),
    ("model.layers=none", '--set model.layers=none: model.layers is "none", but takes a whole number of 1 or more.'),
]  # fmt: skip


@pytest.mark.parametrize(("change", "sentence"), SET, ids=[change for change, _ in SET])
def test_what_is_wrong_with_set_is_said_by_its_name(written, change, sentence):
    assert refusal(written(), change).startswith(sentence)


SMALL = [
    ("{ steps = 10 }", "{ steps = 0 }", "line 26: budget.steps is 0, but"),
    ("{ steps = 10 }", "{ stepz = 10 }", "line 26: there is no field budget.stepz. Did you mean steps?"),
    ("budget = { steps = 10 }", 'title = "s"\nmodel = { layerz = 1 }', "line 27: there is no field model.layerz."),
    ("budget = { steps = 10 }", "data = { overlap = nan }", "line 26: data.overlap is NaN, but takes a number of 0 or more"),
]  # fmt: skip


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(("old", "new", "sentence"), SMALL)
def test_what_is_wrong_in_the_small_form_is_said_whether_it_is_asked_for_or_not(written, old, new, sentence, small):
    assert refusal(written(old, new), small=small).startswith(sentence)


@pytest.mark.parametrize("small", [False, True])
def test_a_small_form_that_is_no_table_is_refused(written, small):
    path = written("[small]\nbudget = { steps = 10 }\n", "", 'title = "A test"', 'small = 3\ntitle = "A test"')
    assert refusal(path, small=small) == "line 1: small is 3, but takes a table with the fields that --small changes."


def test_a_small_form_has_its_own_budget_whatever_set_says_of_the_whole(written):
    path = written("{ steps = 10 }", "{ batch = 2 }\noptimiser = { warmup = 9 }")
    assert read_recipe(path, ["budget.steps=6"]).budget.steps == 6


NONE = {
    "language": 'train = "words.txt"\ncontext = 8',
    "images": 'train = "pictures"\nmean = [0.5]\nsize = [8, 8]',
    "sounds": 'train = "sounds"\nlongest = 1.5\npattern = "{label}_{n}"',
    "translation": 'train = ["a", "b"]',
}
AWAY = [
    ("images", "mean"), ("images", "size"), ("images", "validation"), ("sounds", "longest"), ("sounds", "pattern"),
    ("language", "validation"), ("translation", "validation"),
]  # fmt: skip


@pytest.mark.parametrize(("task", "name"), AWAY)
def test_none_takes_a_field_of_the_data_away(written, task, name):
    path = written('task = "language"\ntrain = "words.txt"\ncontext = 8', f'task = "{task}"\n{NONE[task]}')
    assert getattr(read_recipe(path, [f"data.{name}=none"]).data, name) is None
    assert getattr(read_recipe(path, [f'data.{name}="none"']).data, name) is None


def test_a_number_of_the_data_is_finite(written):
    path = written('task = "language"\ntrain = "words.txt"\ncontext = 8', f'task = "images"\n{NONE["images"]}')
    assert refusal(path, "data.mean=[0.5, nan]") == ("--set data.mean=[0.5, nan]: data.mean[1] is nan, but takes a finite number.")
    assert refusal(path, "data.augment.mixup=inf").startswith("--set data.augment.mixup=inf: data.augment.mixup is inf, but")
    assert refusal(path, "data.mean=3").endswith('data.mean is 3, but takes a list, each a number, or "none".')


def test_a_start_is_looked_for_beside_the_recipe_and_kept_whole(written, tmp_path):
    (tmp_path / "begun").mkdir()
    found = read_recipe(
        written('width = 8\nlayers = 2\n\n[model.block.attention]\nheads = 2\nposition = "rope"', 'start = "begun"')
    )
    assert found.model == {"start": str(tmp_path / "begun")}


def test_without_a_small_form_small_is_refused(written):
    assert refusal(written("[small]\nbudget = { steps = 10 }", ""), small=True).startswith(
        "FILE has no table [small]. Leave --small"
    )


def test_a_recipe_that_is_not_there_names_those_that_are(written, tmp_path):
    written()
    with pytest.raises(InputError, match=r"There is no recipe .*tset\.toml\. .* has test\.toml\."):
        read_recipe(tmp_path / "tset.toml")
    with pytest.raises(InputError, match=r"is a folder without run\.json"):
        read_recipe(tmp_path)
    (tmp_path / "latin.toml").write_bytes('title = "é"'.encode("latin-1"))
    with pytest.raises(InputError, match="is not UTF-8"):
        read_recipe(tmp_path / "latin.toml")


def test_tables_are_merged_and_all_else_is_replaced():
    assert merged({"a": {"b": 1, "c": [1]}}, {"a": {"c": [2]}, "d": 3}) == {"a": {"b": 1, "c": [2]}, "d": 3}


def test_differences_name_what_differs():
    assert differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}, "d": 0}) == ["a.b: 1, now 3", "d: None, now 0"]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_field_says_what_it_means(kind):
    assert set(meanings(kind)) == set(kind.__struct_fields__)


def test_the_schema_says_of_every_field_what_it_is():
    found = recipes()
    assert found["$defs"]["Budget"]["required"] == ["steps", "batch"]
    assert "required" not in found["$defs"]["SmallBudget"]
    assert found["$defs"]["Recipe"]["additionalProperties"] is False
    assert {"const": "none"} in found["$defs"]["Optimiser"]["properties"]["clip"]["anyOf"]
    assert (
        found["$defs"]["Optimiser"]["properties"]["clip"]["description"]
        == "largest norm of the gradient; a longer gradient is scaled down to it"
    )
    references = [
        line for line in msgspec.json.format(msgspec.json.encode(found)).decode().split('"') if line.startswith("#/$defs/")
    ]
    assert {reference.removeprefix("#/$defs/") for reference in references} <= set(found["$defs"])


def test_no_field_of_a_recipe_is_left_without_words():
    assert all(fields.wanted(f.type) != "a value" for kind in kinds() for f in msgspec.structs.fields(kind))


NAMED = [
    ("sounds", {"where": {"tset": {"label": "a"}}}, 'data.where has no entry "tset": its names are "test" or "validation".'),
    ("sounds", {"where": {"test": 5}}, "data.where.test is 5, but takes a table."),
    ("sounds", {"where": {"test": {"label": [1]}}}, "data.where.test.label is [1], but takes a whole number or a text in quotes"),
    ("sounds", {"where": 5}, "data.where is 5, but takes a table."),
    ("molecules", {"drop": {"tset": [1]}}, 'data.drop has no entry "tset": its names are'),
    ("molecules", {"drop": {"train": ["x"]}}, 'data.drop.train is ["x"], but takes a list, each a whole number of 0 or more.'),
    ("molecules", {"where": {"test": [5]}}, "data.where.test is [5], but takes a list of 2"),
]


@pytest.mark.parametrize(("task", "said", "sentence"), NAMED, ids=[sentence for *_, sentence in NAMED])
def test_entries_of_tables_with_free_names_are_said_by_name(task, said, sentence):
    with pytest.raises(InputError) as error:
        recipe(
            {"title": "a", "data": {"task": task, "train": "a", **said}, "model": {"width": 8}, "budget": {"steps": 2, "batch": 2}}
        )
    assert sentence in str(error.value)
