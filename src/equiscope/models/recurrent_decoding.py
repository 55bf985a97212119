"""Decoding with an LSTM: a batch of sequences with one recurrent state each, instead of a cache."""

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.models.decoding import Prompts, finite_scores, id_tensors
from equiscope.models.networks import Lstm, Network
from equiscope.tokens.text import outside


class RecurrentDecoding:
    """A batch during generation, as `Decoding` is for a model with attention.

    ids     the prompts, padded on the left [B, N]; valid: bool [B, N], False for padding
    raises  InputError for a network that cannot generate, and for an empty prompt; ShapeError for prompts that are not lists of ids
    """

    def __init__(self, model: Network, prompts: Prompts) -> None:
        if not isinstance(model, Lstm) or model.spec.outputs != model.spec.vocabulary:
            raise InputError("Only a model whose outputs are its vocabulary can generate: of the baselines, an LSTM.")
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
        """Process the prompts, each from its own start. Returns the logits of the next token, [B, V]."""
        read = [self.model.forward_state(row[None]) for row in self.texts]
        states = zip(*(state for _, state in read), strict=True)  # of each layer, those of all texts
        self.state = [(torch.cat([h for h, _ in layer], 1), torch.cat([c for _, c in layer], 1)) for layer in states]
        return finite_scores(torch.cat([scores[:, -1] for scores, _ in read]))

    def step(self, ids: Tensor) -> Tensor:
        """Process new ids [B, n]. Returns the logits of the token after each of them, [B, n, V]."""
        scores, self.state = self.model.forward_state(ids, self.state)
        return scores
