"""The environment of the peers, apart from that of the project, and the libraries that their pages load.

The page of bertviz loads require.js, d3 and jQuery from a content network. To measure it without a network, the same files are
fetched from npm once and served locally. Without npm, the page is recorded as one that cannot start.
"""

import json
import shutil
import subprocess
import sys
import tarfile

REQUIREMENTS = ["bertviz==1.4.1", "circuitsvis==1.43.3", "inspectus==0.2.0", "ipython"]

# The file a page asks for: (npm package, the file inside). jQuery 2.0.0 is not on npm; 2.1.0 is the next.
LIBRARIES = {
    "require.min.js": ("requirejs@2.3.6", "package/require.js"),
    "d3.min.js": ("d3@5.7.0", "package/dist/d3.min.js"),
    "jquery.min.js": ("jquery@2.1.0", "package/dist/jquery.min.js"),
}


def environment(folder, constraints):
    """The interpreter of the environment of the peers, made on first use.

    folder       where it is kept between runs
    constraints  a pip constraints file, so that the peers use the project's torch
    raises       CalledProcessError if pip cannot install them
    """
    python, done = folder / "env" / "bin" / "python", folder / "env" / "installed.json"
    if not done.exists() or json.loads(done.read_text()) != REQUIREMENTS:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder / "env"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-c", constraints, *REQUIREMENTS], check=True)
        done.write_text(json.dumps(REQUIREMENTS))
    return python


def versions(python):
    """Versions of the peers, read in their environment."""
    names = [*(requirement.split("==")[0] for requirement in REQUIREMENTS), "torch"]
    code = f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(n) for n in {names}}}))"
    return json.loads(subprocess.check_output([python, "-c", code], text=True))


def libraries(folder):
    """The folder of libraries to serve to pages, or None without npm."""
    npm, shelf = shutil.which("npm"), folder / "libraries"
    if npm is None:
        return None
    shelf.mkdir(exist_ok=True)
    for name, (package, member) in LIBRARIES.items():
        if not (shelf / name).exists():
            packed = subprocess.run([npm, "pack", "--silent", package], cwd=shelf, capture_output=True, text=True)
            if packed.returncode:  # the page is then recorded as one that cannot start
                continue
            archive = shelf / packed.stdout.split()[-1]
            with tarfile.open(archive) as files:
                (shelf / name).write_bytes(files.extractfile(member).read())
            archive.unlink()
    return shelf
