"""R-Drop: an example is answered twice, each time with other dropout, and both answers are to be right, and to agree.

Source: Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks".
"""

import torch
from torch import Tensor


def twice(answers: Tensor, wanted: Tensor, left_out: int, smoothing: float, weight: float) -> Tensor:
    """Half of the paper's loss, as one answer's is one loss: mean cross-entropy + weight/2 * mean Kullback-Leibler distance.

    answers    logits [2, N, C] of the same N questions; computed in float32 at least
    wanted     classes [N]; where `left_out`, nothing is asked
    smoothing  share of the wanted probability that is spread over all classes
    weight     the paper's alpha (5 for translation there)

    returns    the sum over questions, in nats
    """
    asked = wanted != left_out
    wide = torch.promote_types(answers.dtype, torch.float32)
    logs, place = answers[:, asked].to(wide).log_softmax(-1), wanted[asked, None].expand(2, -1, 1)
    lost = (smoothing - 1) * logs.gather(-1, place).squeeze(-1) - smoothing * logs.mean(-1)
    first, second = logs
    apart = ((first.exp() - second.exp()) * (first - second)).sum(-1)  # of both ways: p log(p/q) + q log(q/p)
    return (lost.mean(0) + weight / 4 * apart).sum()
