"""Images: a picture becomes one class, several labels, or numbers, by a read-out over its patches."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.data import Images
from equiscope.data.files import overlap_notes
from equiscope.data.image_format import FILE as IMAGE_FORMAT
from equiscope.data.image_format import ImageFormat
from equiscope.data.images import ImageSet, Pictures, unlabelled_pictures
from equiscope.data.picture_files import address, converted
from equiscope.data.targets import target_kind
from equiscope.data.views import Views
from equiscope.errors import InputError
from equiscope.models import Built, Model
from equiscope.record import TokenSequence, pack
from equiscope.record.token_sequence import patch_sequence
from equiscope.tokens.images import picture
from equiscope.training import answers
from equiscope.training.answer_task import AnswerTask
from equiscope.training.answers import Answer, OneClass
from equiscope.training.attention_snapshot import NUMBERS, attention_of
from equiscope.training.folder import read_settings, write_settings
from equiscope.training.input_domain import InputNumbers
from equiscope.training.measures import Outcomes, rate
from equiscope.training.metadata_columns import MetadataColumns
from equiscope.training.recipe import Recipe
from equiscope.training.task import NEW, Batch, ModelInputs, Prediction

AT_ONCE = 250  # pictures that are evaluated together, at most
PAIRS = 2**24  # pairs of their patches, at most
SMALL, MANY = 16, 5000  # rows and columns, and training pictures, of the simple model
ALONE = "accuracy (one view)"
BRIGHT, RESIZED = 0.05, 0.25  # differences of brightness, and of rows and columns as a share, that are usual in any case
SHOWN = 256  # pixels of the longer side of a picture that is shown, at most


class ImagesTask(AnswerTask):
    """A model learns the class, the labels or the numbers of pictures."""

    name: ClassVar[str] = "images"
    stackable: ClassVar[bool] = True
    better: Literal["less", "more"] = "more"
    baselines: ClassVar[tuple[str, ...]] = ("mlp", "convnet")
    ordered = "learned-nd"
    input_names = ("brightness", "contrast", "brightness of the border", "detail", "rows of the file", "columns of the file")

    pictures: Pictures  # none in the task of a run without data

    def __init__(
        self, recipe: Recipe, image_format: ImageFormat, answer: Answer, pictures: Pictures | None = None,
        metadata: MetadataColumns | None = None,
    ) -> None:  # fmt: skip
        super().__init__(recipe)
        assert isinstance(recipe.data, Images)
        self.config, self.format = recipe.data, image_format
        self.set_answer(answer, metadata)
        if pictures is not None:
            self.pictures, self.sources = pictures, pictures.sources
            self.notes = [*pictures.notes, *overlap_notes(self.sources)]
            for part, some in pictures.parts.items():
                self.encode(part, some.names, some.targets, some.others)
        self.grid = (1, 1)  # patches of a picture, which `resolved_fields` sets; a baseline takes it whole

    @classmethod
    def from_recipe(cls, recipe: Recipe, recipe_folder: Path | None = None) -> Self:
        """Read and check the recipe's pictures."""
        assert isinstance(recipe.data, Images)
        config, p = recipe.data, Pictures(recipe.data, recipe.seed, recipe_folder)
        assert p.size is not None
        assert p.channels is not None
        mean, std = (tuple(t.tolist()) for t in (p.mean, p.std))
        answer = answers.of_targets(target_kind(config), p.parts["train"].targets, config.numbers, p.classes or ())
        if config.metadata and config.augment.mixes:
            raise InputError(
                "data.augment mixes two pictures, whose columns (data.metadata) cannot be mixed. Leave one of them out."
            )
        metadata = MetadataColumns.of(config.metadata, [one.metadata for one in p.parts["train"].others])
        return cls(recipe, ImageFormat(size=p.size, channels=p.channels, mean=mean, std=std), answer, p, metadata)

    @classmethod
    def from_run(cls, recipe: Recipe, folder: Path) -> Self:
        image_format = read_settings(folder / IMAGE_FORMAT, ImageFormat, "how this run reads a picture")
        metadata = MetadataColumns.read(folder, getattr(recipe.data, "metadata", ()))
        return cls(recipe, image_format, answers.read(folder), metadata=metadata)

    @classmethod
    def for_evaluation(cls, recipe: Recipe, folder: Path, names: Sequence[str]) -> Self:
        task = cls.from_run(recipe, folder)
        image_format, classes = task.format, tuple(task.classes) or None
        pictures = Pictures.from_files(task.config, classes, image_format.size, image_format.channels, NEW, names)
        return cls(recipe, image_format, task.answer, pictures, task.metadata)

    def save(self, folder: Path) -> None:
        write_settings(folder / IMAGE_FORMAT, self.format)
        answers.save(self.answer, folder)
        self.metadata.save(folder)

    def resolved_fields(self, spec: dict[str, Any]) -> dict[str, Any]:
        (height, width), channels, outputs = self.format.size, self.format.channels, self.answer.outputs
        layer, model_fields = dict(spec.get("input") or {}), self.recipe.model
        patch = layer.get("patch")
        if patch is None or len(patch) != 2 or spec.get("vocabulary") is not None:
            raise InputError(
                "Pictures are cut into patches, but the model has other inputs. "
                "Set model.input.patch = [rows, columns], and no vocabulary."
            )
        if height % patch[0] or width % patch[1]:
            raise InputError(
                f"model.input.patch is {patch[0]}×{patch[1]}, which does not fill pictures of {height}×{width} pixels. "
                "Choose a patch that divides them, or another data.size."
            )
        features, grid = _features(layer, channels, patch), (height // patch[0], width // patch[1])
        self.grid = grid
        spec = self.with_columns(spec)
        layer = dict(spec.get("input") or {})
        if "start" in model_fields:
            if (layer.get("features"), spec.get("outputs")) != (features, outputs):
                raise InputError(
                    f"The checkpoint takes {layer.get('features')} numbers a patch and gives {spec.get('outputs')} answers, but "
                    f"these pictures make {features} and need {outputs}. Use the channels and the targets of its training."
                )
            return spec
        self.check_stated({"input.features": features, "outputs": outputs}, "the pictures have {}")
        readout = spec.setdefault("readout", "class")
        self.check_readout(readout, "picture")
        fields = {"output": {"bias": True}, **spec, "input": layer | {"features": features}, "outputs": outputs}
        block = spec.get("block") or {}
        if "preset" not in model_fields and not _has_position(block):
            block = _with_position(block, self.ordered)
        token = readout == "class" or bool(self.metadata.columns)
        return fields | {"block": _on_grid(block, model_fields.get("block") or {}, grid, token)}

    def sizes(self, baseline: str) -> dict[str, Any]:
        self.check_baseline(baseline)
        return {"shape": (self.format.channels, *self.format.size), "outputs": self.answer.outputs}

    def batch(self, step: int, share: int = 0, shares: int = 1) -> Batch:
        size = self.recipe.budget.batch
        tensors, wanted = self.pictures.batch(step, size, share, shares), self.targets["train"]
        rows = tensors.pop("rows")
        tensors |= {"targets": wanted[rows]} | self.column_inputs(self.columns["train"][rows])
        if "other" in tensors:
            tensors["other"] = wanted[tensors["other"]]
        own, tokens = len(tensors["targets"]), self.grid[0] * self.grid[1]
        return Batch(tensors, size, own * tokens, own, tokens)

    def stacked(self, parts: Sequence[Batch]) -> Batch:
        """Where one seed's pictures are mixed in a step and another's are not, these are mixed with nothing."""
        if any("other" in part.tensors for part in parts):
            nothing = ({"other": part.tensors["targets"], "part": torch.ones(part.size)} for part in parts)
            parts = [replace(part, tensors=none | part.tensors) for part, none in zip(parts, nothing, strict=True)]
        return super().stacked(parts)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss of the answer; for a mixture of two pictures, those of both targets are mixed in the same proportion."""
        t, smoothing = batch.tensors, self.config.smoothing
        outputs = model(t["inputs"], **({"columns": t["columns"]} if "columns" in t else {}))
        if "other" not in t:
            return self.answer.loss(outputs, t["targets"], smoothing)
        own, others = (self.answer.loss(outputs, t[name], smoothing, "none") for name in ("targets", "other"))
        return (t["part"] * own + (1 - t["part"]) * others).sum()

    def evaluate(self, model: Built, part: str = "validation") -> dict[str, float]:
        """The metrics of the answer (`answers`) over a part, and the number of pictures."""
        return self._outcomes(model, part, Views()).values

    def final(self, model: Built, part: str, most: int | None = None) -> dict[str, float]:
        """As `evaluate`, averaged over all views of the recipe; of classes with several views also accuracy (one view), without
        augmentation.

        most  pictures that are read, at regular intervals; by default all
        """
        return self._outcomes(model, part, self.config.views, most).values

    def outcomes(self, model: Built, part: str) -> Outcomes:
        return self._outcomes(model, part, self.config.views)

    @torch.no_grad()
    def _outcomes(self, model: Built, part: str, views: Views, most: int | None = None) -> Outcomes:
        pictures = self.pictures.parts[part]
        count = len(pictures) if most is None else min(most, len(pictures))
        chosen = torch.arange(count) * len(pictures) // count
        columns = self.columns[part]
        each = torch.cat(
            [self._outputs(model, pictures[some], views, columns[some]).cpu() for some in chosen.split(self._at_once(model))], 1
        )
        targets, names = self.targets[part][chosen], [pictures.names[i] for i in chosen.tolist()]
        whole = self.answer.outcomes(names, each.mean(0), targets, "pictures")
        if len(views) == 1 or not isinstance(self.answer, OneClass):
            return whole
        return replace(whole, measures=[*whole.measures, rate(ALONE, (each[0].argmax(-1) == targets).numpy())])

    def visible_inputs(self, part: str, rows: Sequence[int]) -> list[dict[str, str]]:
        images = self.pictures.parts[part][torch.tensor(rows)]
        if max(images.shape[-2:]) > SHOWN:
            images = F.interpolate(images.float(), scale_factor=SHOWN / max(images.shape[-2:]), mode="area").round().byte()
        return [{"picture": address(image.numpy())} for image in images]

    def simple_features(self, part: str) -> tuple[Any, Tensor] | None:
        """Pixels of pictures of at most SMALL rows and columns, in 0..1; of the first MANY training pictures."""
        pictures = self.pictures.parts[part]
        few = self._few(part)
        images = pictures[few]
        size = min(images.shape[-2], SMALL), min(images.shape[-1], SMALL)
        pixels = torch.cat([F.adaptive_avg_pool2d(some.float(), size) for some in images.split(AT_ONCE)])
        columns = self.metadata.one_hot(self.columns[part][few])
        return torch.cat([(pixels / 255).flatten(1).double(), columns], -1).numpy(), self.targets[part][few]

    def simple_groups(self, part: str) -> Sequence[str]:
        others = self.pictures.parts[part].others
        return [others[i].group for i in self._few(part).tolist()]

    def _few(self, part: str) -> Tensor:
        """The pictures of a part that simple models read."""
        count = len(self.pictures.parts[part])
        few = min(count, MANY) if part == "train" else count
        return torch.arange(few) * count // few

    def input_numbers(self, part: str, training_ids: str = "") -> InputNumbers | None:
        return _input_numbers(self.pictures.parts[part])

    def _at_once(self, model: Built) -> int:
        """Pictures that are evaluated together: fewer of many patches, as attention has a score for each pair of them."""
        patch = model.spec.patch_size or self.format.size
        tokens = math.prod(self.format.size) // math.prod(patch)
        return max(1, min(AT_ONCE, PAIRS // max(tokens, 1) ** 2))

    def _outputs(self, model: Built, images: Tensor, views: Views, columns: Tensor) -> Tensor:
        """Outputs for pictures uint8 [B, C, H, W] in each of their views: [views, B, outputs]; the first view is the picture
        itself. columns: their tokens [B, columns].
        """
        device = next(model.parameters()).device
        inputs = self.column_inputs(columns.to(device))
        return torch.stack([model(self.format.normalise(one).to(device), **inputs).float() for one in views.of(images)])

    @torch.no_grad()
    def predict(self, model: Built, inputs: Sequence[str], **options: Any) -> list[Prediction]:
        """The answer for each picture. options: top, how many classes with their probabilities; 3 by default.

        inputs: picture files, folders, archives, tables with a column of file names, idx files of pictures. Pictures are converted,
        resized and cropped as those of the run, and averaged over all views of the recipe.
        """
        top = self.top_of(options)
        if not inputs:
            return []
        pictures = unlabelled_pictures(self.config, inputs, self.format.size, self.format.channels)
        rows = torch.arange(len(pictures)).split(AT_ONCE)
        columns = self.metadata.tokens([one.metadata for one in pictures.others])
        outputs = [self._outputs(model, pictures[some], self.config.views, columns[some]).mean(0).cpu() for some in rows]
        return self.predictions(pictures.names, torch.cat(outputs), top, _input_numbers(pictures))

    def model_inputs(self, model: Built, example: str) -> ModelInputs:
        if not Path(example).is_file():
            raise InputError(f"There is no picture {example}. Give the path of a file that Pillow reads, e.g. PNG or JPEG.")
        pixels = converted(picture(Path(example), example), self.format.size, self.format.channels)
        spec, line = model.spec, TokenSequence(name="picture", kind="patches", labels=[], picture=address(pixels))
        if spec.patch_size is not None:
            grid = [size // side for size, side in zip(self.format.size, spec.patch_size, strict=True)]
            line = patch_sequence(grid, spec.prefix_tokens, line.picture, self.front_names(model))
        return ModelInputs((self.format.normalise(torch.tensor(pixels)[None]).to(next(model.parameters()).device),), [line])

    @torch.no_grad()
    def sample(self, model: Built, i: int) -> tuple[str, Tensor]:
        image, columns = self.pictures.parts["validation"][i : i + 1], self.columns["validation"][i : i + 1]
        return f"validation picture {i + 1}", self._outputs(model, image, Views(), columns)[0, 0].cpu()

    def snapshot(self, model: Built, i: int) -> dict[str, Any]:
        """The picture, and the attention of the row that is read out to the patches; for a mean, of the patch in the middle."""
        image, (down, across) = self.pictures.parts["validation"][i : i + 1], self.grid
        pixels = image[0].movedim(0, -1).squeeze(-1)
        if pixels.numel() > NUMBERS:
            return {}
        snapshot: dict[str, Any] = {"picture": pack(pixels.to(torch.int64).numpy())}
        if not isinstance(model, Model) or len(model.blocks) * model.spec.blocks[0].attention.heads * down * across > NUMBERS:
            return snapshot
        names = [f"{row},{column}" for row in range(down) for column in range(across)]
        middle = down // 2 * across + across // 2
        before = model.spec.prefix_tokens
        row = {"first": 0, "last": len(names) - 1}.get(model.spec.readout, middle)
        row_name, row = names[row], before + row
        if model.spec.readout == "class":
            row, row_name = 0, "class"
        x = self.format.normalise(image).to(next(model.parameters()).device)
        attention = attention_of(model, x, rows=slice(row, row + 1), columns=slice(before, None))
        return snapshot | {"tokens": [row_name], "source": names, "grid": [down, across], "attention": attention}


def _input_numbers(pictures: ImageSet) -> InputNumbers:
    """Mean, deviation, mean of the border and mean difference of neighbours, in 0..1; rows and columns of the files."""
    found = []
    for some in torch.arange(len(pictures)).split(AT_ONCE):
        x = pictures[some].float().mean(1) / 255
        border = torch.cat([x[:, 0], x[:, -1], x[:, :, 0], x[:, :, -1]], -1).mean(-1)
        steps = torch.cat([x.diff(dim=-1).abs().flatten(1), x.diff(dim=-2).abs().flatten(1)], -1)
        detail = steps.mean(-1) if steps.shape[-1] else torch.zeros(len(x))
        found.append(torch.stack([x.mean((1, 2)), x.std((1, 2), correction=0), border, detail], -1))
    sizes = pictures.sizes.double()
    least = [BRIGHT, BRIGHT, BRIGHT, BRIGHT / 2, *(sizes.median(0).values * RESIZED).tolist()]
    return InputNumbers(ImagesTask.input_names, least, torch.cat([torch.cat(found).double(), sizes], -1).numpy())


def _features(layer: dict[str, Any], channels: int, patch: Sequence[int]) -> int:
    """Features of a token: the numbers of its patch, or the channels of the stem's last convolution."""
    stem = layer.get("stem")
    if not stem:
        return channels * patch[0] * patch[1]
    if stem[0] != channels:
        raise InputError(
            f"model.input.stem begins with {stem[0]} channels, but the pictures have {channels}. Begin with {channels}."
        )
    return int(stem[-1])


def _has_position(block: Any) -> bool:
    """Whether a block, or one of several, names a position scheme, including "none"."""
    blocks = block if isinstance(block, list | tuple) else [block]
    return any("position" in (one.get("attention") or {}) for one in blocks)


def _with_position(block: Any, scheme: str) -> Any:
    """Blocks with a position scheme."""
    if isinstance(block, list | tuple):
        return [_with_position(one, scheme) for one in block]
    return block | {"attention": (block.get("attention") or {}) | {"position": scheme}}


def _on_grid(block: Any, model_fields: Any, grid: tuple[int, int], token: bool) -> Any:
    """Blocks whose position tables have the size of the pictures' grid; a size in the recipe is kept if it is large enough.

    token  whether a class token has one more position, after the last patch
    """
    if isinstance(block, (list, tuple)):
        each = model_fields if isinstance(model_fields, (list, tuple)) else [{}] * len(block)
        return [_on_grid(one, of, grid, token) for one, of in zip(block, each, strict=True)]
    attention = dict(block.get("attention") or {})
    position = attention.get("position")
    scheme = {"scheme": position} if isinstance(position, str) else dict(position or {})
    if scheme.get("scheme") not in ("learned-nd", "swin"):
        return block
    own = (model_fields.get("attention") or {}).get("position")
    needed = [n + (token and scheme["scheme"] == "swin") for n in grid]
    if isinstance(own, dict) and "shape" in own:
        if len(own["shape"]) != 2 or any(a < b for a, b in zip(own["shape"], needed, strict=True)):
            raise InputError(
                f"model.block.attention.position.shape is {list(own['shape'])}, but the patches need {needed}. "
                "Leave it out: the data determines it."
            )
        return block
    return block | {"attention": attention | {"position": scheme | {"shape": needed}}}
