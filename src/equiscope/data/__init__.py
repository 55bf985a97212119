"""Data: examples from files, or generated, in an order that is a function of the seed. One file per task."""

from equiscope.data.files import Missing, digest, find_files, sources
from equiscope.data.images import Images
from equiscope.data.labelled_texts import Texts
from equiscope.data.language import Language, Passages
from equiscope.data.molecules import Molecules
from equiscope.data.point_sets import PointSets
from equiscope.data.sampler import Sampler, generator
from equiscope.data.sounds import Sounds
from equiscope.data.synthetic import Synthetic
from equiscope.data.table_rows import Tabular
from equiscope.data.tagged_texts import Tags
from equiscope.data.translation import Translation

__all__ = [
    "Images",
    "Language",
    "Missing",
    "Molecules",
    "Passages",
    "PointSets",
    "Sampler",
    "Sounds",
    "Synthetic",
    "Tabular",
    "Tags",
    "Texts",
    "Translation",
    "digest",
    "find_files",
    "generator",
    "sources",
]
