"""Badge: an audit as the JSON of a shields.io endpoint badge. Source: https://shields.io/badges/endpoint-badge"""

import json

from equiscope.record import Audit


def badge(audit: Audit) -> str:
    """The JSON document: how many statements were decided, and how many failed."""
    decided = sum(row.verdict not in ("undecided", "not applicable") for row in audit.rows)
    message, colour = f"{decided} checked, {len(audit.failed)} failed", "brightgreen"
    if audit.failed:
        colour = "red"
    elif not audit.decided:
        message, colour = "undecided", "lightgrey"
    elif audit.accepted:
        message, colour = f"{message}, {len(audit.accepted)} known", "yellow"
    return json.dumps({"schemaVersion": 1, "label": "equiscope", "message": message, "color": colour}, indent=1) + "\n"
