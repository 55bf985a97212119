"""What a page would get of a model on an input."""

from equiscope.program import watch
from equiscope.program.lower import attention_roles, lowered
from equiscope.program.replay import replay


def recorded(model, *inputs, kwargs=None, arrays=True, title=""):
    return lowered(watch(model, *inputs, kwargs=kwargs), arrays, title)


def attention_of(program, leaves=None):
    """Scores, weights, values and their mix in the only attention of a record."""
    values = replay(program, leaves)
    (look,) = attention_roles(program)
    return values[look.scores], values[look.weights.id], values[look.values], values[look.output.id]


def angles_of(program):
    """What the first rotation of a record turns by."""
    return replay(program)[next(step for step in program.steps if step.op == "rotate").inputs[1]]
