"""Other formats: files of data in a form that is not read, with the way to convert each."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from equiscope.errors import InputError, counted

_TABLE = "Save it as .csv"
_PANDAS = """python -c "import pandas; pandas.read_{0}('FILE').to_csv('FILE.csv', index=False)\""""
_MOLECULES = "Convert it to .extxyz, as ASE does: ase convert FILE FILE.extxyz"
WAYS = {  # endings -> how to convert a file
    **dict.fromkeys((".7z", ".rar"), "Unpack it, and name the folder"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".ods", ".numbers", ".sas7bdat", ".rds", ".sqlite", ".db"), _TABLE),
    ".parquet": f"{_TABLE}: {_PANDAS.format('parquet')}",
    **dict.fromkeys((".feather", ".arrow"), f"{_TABLE}: {_PANDAS.format('feather')}"),
    ".orc": f"{_TABLE}: {_PANDAS.format('orc')}",
    ".dta": f"{_TABLE}: {_PANDAS.format('stata')}",
    ".sav": f"{_TABLE}: {_PANDAS.format('spss')}",
    **dict.fromkeys((".pdf", ".doc", ".docx", ".odt", ".rtf", ".epub"), "Save it as .txt"),
    **dict.fromkeys(
        (".npy", ".mat", ".h5", ".hdf5", ".pkl", ".pt"), "Write its arrays with numpy.savez: images=..., labels=..."
    ),
    **dict.fromkeys((".heic", ".heif", ".avif", ".jp2", ".svg", ".psd", ".tga", ".dcm"), "Convert it to .png"),
    **dict.fromkeys((".m4a", ".aac", ".wma", ".amr", ".mp4", ".webm"), "Convert it to .wav: ffmpeg -i FILE FILE.wav"),
    **dict.fromkeys((".cif", ".pdb", ".traj", ".gro"), _MOLECULES),
    ".json": "Write one object a line, in a file .jsonl; of a list of objects: jq -c '.[]' FILE.json > FILE.jsonl",
}  # fmt: skip


def check(name: object, ending: str) -> None:
    """Raise InputError for a file in a form that is not read."""
    if way := WAYS.get(ending.lower()):
        raise InputError(f"{name} is a {ending}, which is not read. {way}.")


def folder_sentence(files: Iterable[Path]) -> str:
    """Of files in forms that are not read, how many there are of the most frequent one, and what to do; empty without any."""
    endings = Counter(suffix for file in files if (suffix := file.suffix.lower()) in WAYS)
    if not endings:
        return ""
    suffix, count = endings.most_common(1)[0]
    return f"{counted(count, f'file that ends in {suffix} is', f'files that end in {suffix} are')} not read. {advice(suffix)}."


def advice(ending: str) -> str:
    """How to convert each of several files; empty for an ending that is not known."""
    return WAYS.get(ending.lower(), "").replace(" it ", " each ", 1).replace(" its ", " the ", 1)
