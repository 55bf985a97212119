"""JUnit of a comparison: one test case for each output; an output that differs is a failure with step and cause."""

from xml.etree import ElementTree as xml

from equiscope.audit.integrations.junit import add_text, as_texts
from equiscope.record import Parity


def parity_junit(parity: Parity) -> str:
    """The XML document."""
    name = f"equiscope parity {parity.a} {parity.b}"
    skipped = sum(row.verdict in ("undecided", "not applicable") or bool(row.accepted) for row in parity.rows)
    failures = sum(parity.failed and row.verdict in ("approximate", "broken") and not row.accepted for row in parity.rows)
    counts = {"tests": len(parity.rows), "failures": failures, "errors": 0, "skipped": skipped, "time": f"{parity.seconds:.3f}"}
    root = xml.Element("testsuites", as_texts({"name": "equiscope parity", **counts}))
    suite = xml.SubElement(root, "testsuite", as_texts({"name": name, **counts}))
    body = "\n".join(filter(None, (parity.where, parity.cause, parity.evidence, *map(str, parity.further), *parity.notes)))
    for row in parity.rows:
        case = xml.SubElement(suite, "testcase", as_texts({"classname": name, "name": row.name, "time": "0.000"}))
        if row.accepted:
            xml.SubElement(case, "skipped", as_texts({"message": f"{row.verdict}, accepted: {row.accepted}"}))
        elif parity.differs_in_precision:
            xml.SubElement(case, "system-out").text = "\n".join((parity.cause, *map(str, parity.answers), *parity.notes))
        elif row.verdict in ("approximate", "broken"):
            add_text(case, "failure", body, message=f"{row!r}. {parity.cause or parity.where}", type=row.verdict)
        elif row.verdict != "holds":
            xml.SubElement(case, "skipped", as_texts({"message": row.note or row.verdict}))
    xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"
