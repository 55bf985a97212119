"""Records of evaluations for the tests of their page: classes with pictures, numbers with texts, and hostile names."""

import numpy as np
from msgspec.structs import replace

from equiscope.data.picture_files import address
from equiscope.record.evaluation import (
    AnsweredExample,
    EvaluationRecord,
    MetricDifference,
    MetricValue,
    PartEvaluation,
    PredictedNumber,
)
from equiscope.record.run import DataFile

HOSTILE = "</script><img src=x onerror='window.hit=1'>"
PICTURE = address(np.arange(64, dtype=np.uint8).reshape(1, 8, 8))


def examples(count, **more):
    return [
        AnsweredExample(name=f"picture {i}", answer="cat (90%)", target="dog", error=2.0 - i / 10, **more) for i in range(count)
    ]


def classes(part="test", many=3, title="cat"):
    names = [f"{title} {i}" for i in range(many)]
    counts = (np.eye(many, dtype=int) * 8 + 1).tolist()
    metrics = [
        MetricValue(name="accuracy", value=0.8, low=0.7, high=0.88),
        MetricValue(name="loss", value=0.61, low=0.5, high=0.7, unit="nats"),
        MetricValue(name="pictures", value=12_345.0),
    ]  # fmt: skip
    return PartEvaluation(
        part=part, summary=f"Accuracy 0.8 on {part}.", metrics=metrics, worst=examples(10, picture=PICTURE), classes=names,
        confusion=counts, examples=examples(40), simple={"majority": {"accuracy": 0.3}, "linear": {"accuracy": 0.65, "loss": 0.9}},
        differences=[
            MetricDifference(name="accuracy", first=0.8, second=0.75, difference=0.05, low=-0.01, high=0.11, p=0.12),
            MetricDifference(name="loss", first=0.61, second=0.7, difference=-0.09, low=-0.15, high=-0.02),
        ],
        warnings=["3 pictures are far away."],
    )  # fmt: skip


def numbers(count=7000):
    true = np.linspace(-3, 3, count)
    return PartEvaluation(
        part="data", summary="Mae 0.1.", metrics=[MetricValue(name="mae", value=0.1)],
        worst=[AnsweredExample(name="a text…", answer="1.2", target="0.4", error=3.0, text="a text\nof two lines")],
        numbers=[PredictedNumber(name="stars", true=true.tolist(), predicted=(true + 0.1).tolist())],
    )  # fmt: skip


def evaluation(kind="classes"):
    parts = {
        "classes": [classes("validation"), classes("test")],
        "many": [replace(classes(many=40), differences=[])], "numbers": [numbers()],
        "bare": [PartEvaluation(part="test", metrics=[MetricValue(name="loss", value=None)])], "hostile": [classes(title=HOSTILE)],
    }[kind]  # fmt: skip
    data = [DataFile(name="new.csv", part="data", bytes=120, sha256="0" * 64)] if kind == "numbers" else []
    run = f"runs/{HOSTILE if kind == 'hostile' else 'first'}"
    other = "runs/second" if kind in ("classes", "hostile") else ""
    return EvaluationRecord(
        run=run, other=other, task="images", weights="best", parts=parts, data=data, signatures={"accuracy": "share of pictures"}
    )
