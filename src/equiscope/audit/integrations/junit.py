"""JUnit: an audit as the XML that continuous-integration servers display. One test case for each row.

A row that fails is a failure with its sentences. A row that is undecided, or accepted by a baseline file, is skipped with the
reason. A row that does not hold but is not required is a passed case with the sentences in its output.
"""

import re
from xml.etree import ElementTree as xml

from equiscope.record import Audit, ReportRow, report
from equiscope.record.report import finding

NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML 1.0 excludes
SKIPPED = ("undecided", "not applicable")


def junit(audit: Audit) -> str:
    """The XML document. Of a test case, classname is the target of the check and name is the row."""
    skipped = sum((row.verdict in SKIPPED and not row.fails) or bool(row.accepted) for row in audit.rows)
    counts = {
        "tests": len(audit.rows),
        "failures": len(audit.failed),
        "errors": 0,
        "skipped": skipped,
        "time": f"{audit.seconds:.3f}",
    }
    content = report(audit)
    root = xml.Element("testsuites", as_texts({"name": "equiscope check", **counts}))
    suite = xml.SubElement(root, "testsuite", as_texts({"name": f"equiscope check {audit.target}", **counts}))
    _properties(suite, audit)
    for number, row_text in enumerate(content.rows):
        _case(suite, audit, number, row_text)
    add_text(suite, "system-out", content.summary)
    xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _properties(suite: xml.Element, audit: Audit) -> None:
    element = xml.SubElement(suite, "properties")
    of_module = () if audit.served is not None else ("parameters", "dtype", "device")
    facts = {name: getattr(audit, name) for name in ("model", *of_module, "inputs", "seed", "effort")}
    for name, value in (facts | audit.versions).items():
        xml.SubElement(element, "property", as_texts({"name": name, "value": value}))


def _case(suite: xml.Element, audit: Audit, number: int, text: ReportRow) -> None:
    row = audit.rows[number]
    case = xml.SubElement(suite, "testcase", as_texts({"classname": audit.target, "name": text.id, "time": f"{row.seconds:.3f}"}))
    body = "\n".join([*finding(audit, row), *([f"Note: {row.note}"] if row.note else []), f"Again: {text.command}"])
    if row.fails:
        where = f" in {row.where}" if row.where else ""
        cause = f": {row.cause}" if row.cause else ""
        add_text(case, "failure", body, message=f"{row.name} is {row.verdict}{where}{cause}. {text.finding[0]}", type=row.verdict)
    elif row.accepted:
        xml.SubElement(case, "skipped", as_texts({"message": f"{row.verdict}, accepted: {row.accepted}"}))
    elif row.verdict in SKIPPED:
        xml.SubElement(case, "skipped", as_texts({"message": row.note or row.verdict}))
    else:
        add_text(case, "system-out", body)


def add_text(parent: xml.Element, tag: str, text: str, **attributes: str) -> None:
    xml.SubElement(parent, tag, as_texts(attributes)).text = _clean(text)


def as_texts(values: dict[str, object] | dict[str, str]) -> dict[str, str]:
    return {name: _clean(str(value)) for name, value in values.items()}


def _clean(text: str) -> str:
    return NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
