"""Build the page when it is stale, and only then. Standard library only: run.py and hatch_build.py both use it.

The hash of the sources is stored beside the bundle: the page is fresh when the hash of today's sources is the same.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

WEB = Path(__file__).resolve().parent
PAGE = WEB.parent / "src" / "equiscope" / "explore" / "page"
DOCS = WEB.parent / "docs"  # whose chapters are the text of the book
ANSWER = WEB.parent / "recipes" / "questions" / "results" / "heads.json"  # the recorded answer that the book shows
STAMP = PAGE / "sources.sha256"
MODULES = WEB / "node_modules"
MODULES_STAMP = MODULES / ".sources.sha256"
_LOCK = [WEB / "package.json", WEB / "package-lock.json"]
NODE = ((20, 19), (22, 12))  # "engines" in package.json: 20.19 or a later 20, or 22.12 and later


def is_fresh() -> bool:
    """Whether the built page exists and was made from the sources as they are now."""
    return (PAGE / "sentence.js").exists() and _read(STAMP) == _digest(_sources())


def find_npm(path: str | None = None) -> str | None:
    """Where npm is on `path` (default: PATH), or None if it is missing or its Node is too old for the build."""
    npm, node = shutil.which("npm", path=path), shutil.which("node", path=path)
    if not npm or not node:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
    old, new = NODE
    return npm if found >= new or (found[:1] == old[:1] and found >= old) else None


def is_installed() -> bool:
    """Whether web/node_modules holds what the lock file says."""
    return _read(MODULES_STAMP) == _digest(_LOCK)


def install(path: str | None = None) -> None:
    """Bring web/node_modules to what the lock file says."""
    npm("ci", "--no-audit", "--no-fund", "--loglevel=error", path=path)
    MODULES_STAMP.write_text(_digest(_LOCK))


def build(path: str | None = None) -> None:
    """Make the page. Vite empties the folder first, so an interrupted build leaves no stamp and counts as stale."""
    before = _digest(_sources())
    if not is_installed():
        install(path)
    npm("run", "--silent", "build", "--", "--logLevel=warn", path=path)
    STAMP.write_text(before)


def npm(*arguments: str, path: str | None = None) -> None:
    """Run npm in web/, with `path` as PATH so that npm finds its node; raises CalledProcessError."""
    found = find_npm(path)
    if not found:
        raise FileNotFoundError("Building the page needs npm with Node 20.19, 22.12 or newer.")
    environment = {**os.environ, "PATH": path or os.environ.get("PATH", "")}
    subprocess.run([found, *arguments], cwd=WEB, env=environment, check=True)


def _sources() -> Iterator[Path]:
    for folder, folders, files in os.walk(WEB):
        folders[:] = sorted(name for name in folders if name not in {"node_modules", "__pycache__", "tests"})
        for name in sorted(files):
            if not name.endswith((".test.ts", ".py", ".md")):
                yield Path(folder, name)
    yield from sorted((DOCS / "learn").glob("*.md"))
    yield from (DOCS / "reference" / "claims.md", ANSWER)


def _digest(files: Iterator[Path] | list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(WEB.parent).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _read(file: Path) -> str:
    return file.read_text().strip() if file.exists() else ""
