"""Recurrence: texts that an LSTM has read so far, side by side, and what it says comes next: one state a text, and no cache."""

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.models.decoding import Prompts, finite_scores, id_tensors
from equiscope.models.networks import Lstm, Network
from equiscope.tokens.text import outside


class RecurrentDecoding:
    """A batch in the middle of being written, as `Decoding` is of a model with attention.

    ids     the prompts side by side [B, N]; real: bool [B, N], False where there is padding
    raises  InputError for a network that does not write, and for an empty prompt; ShapeError for prompts that are no lists of ids
    """

    def __init__(self, model: Network, prompts: Prompts) -> None:
        if not isinstance(model, Lstm) or model.spec.outputs != model.spec.vocabulary:
            raise InputError("Only a model that answers with its vocabulary can go on: of the baselines, an LSTM.")
        self.model, self.texts = model, id_tensors(prompts, model, "Prompts", "A prompt")
        rows = model.embedding.num_embeddings
        for text in self.texts:
            if outside(text, rows):
                raise InputError(f"This model knows the ids 0..{rows - 1}, but got {int(text.min())}..{int(text.max())}.")
        longest = max(map(len, self.texts))
        self.ids = torch.stack([torch.nn.functional.pad(row, (longest - len(row), 0)) for row in self.texts])
        lengths = torch.tensor([[len(row)] for row in self.texts], device=self.ids.device)
        self.valid = torch.arange(longest, device=self.ids.device) >= longest - lengths

    def prefill(self) -> Tensor:
        """Read the prompts, each from its own beginning. Scores of what comes next, [B, V]; as a `Decoding` does."""
        read = [self.model.forward_state(row[None]) for row in self.texts]
        states = zip(*(state for _, state in read), strict=True)  # of each layer, those of all texts
        self.state = [(torch.cat([h for h, _ in layer], 1), torch.cat([c for _, c in layer], 1)) for layer in states]
        return finite_scores(torch.cat([scores[:, -1] for scores, _ in read]))

    def step(self, ids: Tensor) -> Tensor:
        """Read what was chosen, ids [B, n]. Scores of what follows each of them, [B, n, V]."""
        scores, self.state = self.model.forward_state(ids, self.state)
        return scores
