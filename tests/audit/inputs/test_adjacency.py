"""A dense adjacency follows the nodes: its rows and columns are permuted with them, and cut with them."""

import pytest
import torch
from torch import Tensor, nn

from equiscope.audit import check
from equiscope.audit.inputs.example_inputs import inputs_for
from equiscope.errors import InputError
from equiscope.symmetry.inputs import inputs_of

N, D = 7, 8


class GraphAttention(nn.Module):
    """A node attends to those that its row of the adjacency names."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).mT
        return x + scores.masked_fill(adj == 0, -torch.inf).softmax(-1) @ self.v(x)


class EdgeBias(GraphAttention):
    """Features of the edges [N, N, E] become a bias on the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Linear(3, 1)

    def forward(self, x: Tensor, edge_features: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).mT + self.bias(edge_features)[..., 0]
        return x + scores.softmax(-1) @ self.v(x)


class Convolution(GraphAttention):
    """The mean of the neighbours (Kipf and Welling 2017)."""

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        return (adj / adj.sum(-1, keepdim=True)) @ self.v(x).relu()


class NodeNumbers(Convolution):
    """Fault: the number of the node is a feature."""

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        return super().forward(x + torch.arange(N).to(x)[:, None], adj)


class OneDirection(Convolution):
    """Fault: only edges from nodes with smaller numbers count."""

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        return super().forward(x, adj.tril())


def graph(seed: int = 0) -> Tensor:
    edges = torch.rand(N, N, generator=torch.Generator().manual_seed(seed)) > 0.6
    return (edges | edges.mT | torch.eye(N, dtype=torch.bool)).float()


def verdict(model: nn.Module, *inputs: Tensor, **more) -> str:
    return next(
        row.verdict for row in check(model, *inputs, actions="permute", effort="quick", **more).rows if row.name == "permute"
    )


@pytest.mark.parametrize("batched", [None, "nodes", "both"])
@pytest.mark.parametrize("kind", [GraphAttention, Convolution])
def test_nodes_are_permuted_with_their_adjacency(kind, batched):
    torch.manual_seed(0)
    x = torch.randn(N, D) if batched is None else torch.randn(2, N, D)
    adjacency = torch.stack([graph(0), graph(1)]) if batched == "both" else graph()
    assert verdict(kind(), x, adjacency) == "holds"


@pytest.mark.quick
def test_a_batch_as_large_as_the_graph_has_one_adjacency():
    assert verdict(GraphAttention(), torch.randn(N, N, D), graph()) == "holds"


@pytest.mark.parametrize("shape", [(N, N, 3), (2, N, N, 3)])
def test_features_of_edges_follow_the_nodes(shape):
    assert verdict(EdgeBias(), torch.randn(2, N, D), torch.randn(shape)) == "holds"


@pytest.mark.parametrize("kind", [NodeNumbers, OneDirection])
def test_faults_of_graph_models_break_it(kind):
    assert verdict(kind(), torch.randn(2, N, D), graph()) == "broken"


def test_the_proof_permutes_the_adjacency_too():
    row = check(GraphAttention(), torch.randn(2, N, D), graph(), actions="permute").rows[0]
    assert (row.verdict, row.proof.answer) == ("holds", "proved")
    assert "with fixed adj" in row.proof.reason


def test_a_graph_that_points_backward_is_causal():
    rows = check(GraphAttention(), torch.randn(2, N, D), torch.ones(N, N).tril(), properties="causal").rows
    assert rows[0].verdict == "holds"


@pytest.mark.quick
def test_a_required_adjacency_is_a_ring():
    drawn = inputs_for(GraphAttention())
    adjacency = drawn.args[1]
    assert (adjacency.sum(-1) == 3).all()


@pytest.mark.quick
def test_another_matrix_is_no_adjacency():
    x = torch.randn(2, N, D)
    assert inputs_of((x, torch.randn(N + 1, N + 1)), names=("x", "adj")).kinds["adj"] == "other"
    assert inputs_of((x, torch.randn(12, 4)), names=("x", "edge_attr")).kinds["edge_attr"] == "other"  # one row for each edge
    with pytest.raises(InputError, match=r"'dist' is declared as adjacency.*\[\.\.\., N, N\]"):
        inputs_of((x, torch.randn(N, D)), names=("x", "dist"), kinds={"dist": "adjacency"})
