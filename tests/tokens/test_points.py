"""Points: files are read as ASE and trimesh read them, in known units, and a mistake is named with its line (T5)."""

import gzip
import json
import struct
import tarfile
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equiscope.errors import EquiscopeError, InputError, ShapeError, UnknownName
from equiscope.tokens import Points, atoms, ply_file, read_frames, read_points, vertices

WATER = "3\nwater\nO 0 0 0.1173\nH 0 0.7572 -0.4692\nH 0 -0.7572 -0.4692\n"
EXTENDED = """2
Lattice="4 0 0 0 5 0 0.5 0 6" Properties=species:S:1:pos:R:3:forces:R:3:fixed:L:1:kind:I:1 energy=-1.5 pbc="T T F" name="a b" tagged
C 0 0 0 0.1 0.2 0.3 T 7
O 0 0 1.128 -0.1 -0.2 -0.3 F 8
"""
SDF = """carbonyl sulfide
  written by hand

  3  2  0  0  0  0  0  0  0  0999 V2000
   -1.5600    0.0000    0.0000 S   0  0  0  0  0  0  0  0  0  0  0  0
    0.0000    0.0000    0.0000 C   0  0  0  0  0  0  0  0  0  0  0  0
 1000.1600-1000.0000    0.0000 O   0  0  0  0  0  0  0  0  0  0  0  0
  2  1  2  0
  2  3  2  0
M  END
> <energy>
-1.25

> <remarks>
two
lines

$$$$
"""
QUADS = "# a square with a corner folded out\nv 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvn 0 0 1\nv 2 2 1\n"
QUADS += "f 1//1 2//1 3//1 4//1\nf -3/9 -2 -1\n"


def at(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def same_as_ase(found, theirs):
    assert np.array_equal(found.positions.numpy(), theirs.positions)
    assert found.numbers.tolist() == theirs.numbers.tolist()
    assert found.unit == "angstrom"


def test_plain_xyz_is_read_as_ase_reads_it(tmp_path):
    io = pytest.importorskip("ase.io")
    path = at(tmp_path, "two.xyz", WATER + "\n" + WATER.replace("0.1173", "1.0e-1") + "\n\n")
    found = read_frames(path)
    assert len(found) == 2
    same_as_ase(read_points(at(tmp_path, "one.xyz", WATER)), io.read(tmp_path / "one.xyz"))
    assert found[1].positions[0, 2] == 0.1
    assert found[0].values == {"comment": "water"}


def test_every_molecule_of_a_set_is_read_as_ase_reads_it(data, tmp_path):
    io = pytest.importorskip("ase.io")
    with tarfile.open(data("qm7/qm7_train.tar.xz")) as archive:
        names = [name for name in archive.getnames() if name.endswith(".xyz")][::100]
        for name in names:
            path = at(tmp_path, "one.xyz", archive.extractfile(name).read())
            same_as_ase(read_points(path), io.read(path))
    assert len(names) > 50


def test_extended_xyz_keeps_what_it_names(tmp_path):
    found = read_points(at(tmp_path, "co.extxyz", EXTENDED))
    assert found.cell.tolist() == [[4, 0, 0], [0, 5, 0], [0.5, 0, 6]]
    assert found.values["energy"] == -1.5
    assert found.values["forces"].tolist() == [[0.1, 0.2, 0.3], [-0.1, -0.2, -0.3]]
    assert found.values["fixed"].tolist() == [True, False]
    assert found.values["kind"].tolist() == [7, 8]
    assert found.values["pbc"] == [True, True, False]
    assert (found.values["name"], found.values["tagged"]) == ("a b", True)


def test_a_real_trajectory_is_read_as_ase_reads_it(data, tmp_path):
    io = pytest.importorskip("ase.io")
    path = data("acac/train_300K.xyz.xz")
    frames, theirs = read_frames(path), io.read(path, "::100", format="extxyz")
    assert len(frames) == 500
    for found, other in zip(frames[::100], theirs, strict=True):
        same_as_ase(found, other)
        assert found.values["energy"] == other.get_potential_energy()
        assert np.array_equal(found.values["forces"].numpy(), other.get_forces())
        assert np.array_equal(found.cell.numpy(), other.cell.array)
    forces = torch.stack([found.values["forces"] for found in frames])
    assert forces.sum(1).abs().max() < 1e-5  # eV/Å: a molecule alone does not push itself
    with pytest.raises(InputError, match=r"holds 500 sets of points. Read them all: read_frames\(path\)"):
        read_points(path)


def test_sdf_is_read_as_ase_reads_it_with_its_bonds_and_data(tmp_path):
    io = pytest.importorskip("ase.io")
    path = at(tmp_path, "ocs.sdf", SDF)
    found = read_points(path)
    same_as_ase(
        read_points(at(tmp_path, "apart.sdf", SDF.replace("1000.1600-1000.0", "   1.1600    0.0"))), io.read(tmp_path / "apart.sdf")
    )
    assert found.positions[2].tolist() == [1000.16, -1000.0, 0.0]  # columns of fixed width: numbers may touch
    assert found.bonds.tolist() == [[1, 0], [1, 2]]
    assert found.edges.tolist() == [[0, 1], [1, 2]]
    assert found.values["bond_order"].tolist() == [2, 2]
    assert found.values["title"] == "carbonyl sulfide"
    assert (found.values["energy"], found.values["remarks"]) == ("-1.25", "two\nlines")
    assert len(read_frames(at(tmp_path, "two.sdf", SDF + SDF))) == 2


def test_real_molecules_have_their_lengths_in_angstrom_and_their_bonds(data):
    water = read_points(data("molecules/water.cjson"))
    assert water.numbers.tolist() == [1, 8, 1]
    assert (water.positions[[0, 2]] - water.positions[1]).norm(dim=-1).tolist() == pytest.approx([0.96, 0.96], abs=0.03)
    ball = read_points(data("molecules/C60-buckminsterfullerene.cjson"))
    assert ball.numbers.unique().tolist() == [6]
    assert ball.edges.flatten().bincount().tolist() == [3] * 60  # each carbon has three neighbours
    a, b = ball.positions[ball.edges].unbind(1)
    assert 1.3 < (a - b).norm(dim=-1).min() < (a - b).norm(dim=-1).max() < 1.5


def test_obj_faces_become_triangles_and_count_back(tmp_path):
    found = read_points(at(tmp_path, "fold.obj", QUADS))
    assert found.positions.shape == (5, 3)
    assert found.faces.tolist() == [[0, 1, 2], [0, 2, 3], [2, 3, 4]]
    assert found.unit is None
    assert found.numbers is None
    assert found.edges.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [2, 3], [2, 4], [3, 4]]


@pytest.mark.parametrize("name", ["spot.obj", "cow.obj"])
def test_real_meshes_are_read_as_trimesh_reads_them(data, name):
    trimesh = pytest.importorskip("trimesh")
    path = data(f"meshes/{name}")
    found, theirs = read_points(path), trimesh.load(path, process=False, maintain_order=True, skip_materials=True)
    assert np.array_equal(theirs.vertices, found.positions.numpy())
    assert np.array_equal(theirs.faces, found.faces.numpy())
    if name == "spot.obj":  # closed and without holes: Euler
        assert len(found.positions) - len(found.edges) + len(found.faces) == 2


HEAD = "ply\nformat {} 1.0\ncomment by hand\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
HEAD += "property uchar red\n"
FACES = "element face 2\nproperty list uchar int vertex_indices\nend_header\n"
CORNERS = [(0.0, 0.5, 1.0), (1.0, 0.5, 1.0), (1.0, 1.5, 1.0), (0.0, 1.5, 2.0)]


def ply(kind):
    head = (HEAD + FACES).format(kind).encode()
    if kind == "ascii":
        return head + "".join(f"{x} {y} {z} 9\n" for x, y, z in CORNERS).encode() + b"3 0 1 2\n3 0 2 3\n"
    sign = "<" if kind == "binary_little_endian" else ">"
    rows = [struct.pack(f"{sign}3fB", *corner, 9) for corner in CORNERS]
    return head + b"".join([*rows, struct.pack(f"{sign}B3i", 3, 0, 1, 2), struct.pack(f"{sign}B3i", 3, 0, 2, 3)])


@pytest.mark.parametrize("kind", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_ply_is_read_as_text_and_binary(tmp_path, kind):
    found = read_points(at(tmp_path, "square.ply", ply(kind)))
    assert found.positions.tolist() == [list(corner) for corner in CORNERS]
    assert found.faces.tolist() == [[0, 1, 2], [0, 2, 3]]


@pytest.mark.parametrize("kind", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_faces_of_a_ply_may_have_different_numbers_of_corners_and_colours(tmp_path, kind):
    head = HEAD + "element face 4\nproperty uchar red\nproperty list uchar uint vertex_index\nproperty list uchar float texcoord\n"
    head += "element edge 1\nproperty short vertex1\nend_header\n"
    faces = [(0, 1, 2), (0, 2, 3), (0, 1, 2, 3), (3, 2, 1)]
    if kind == "ascii":
        body = "".join(f"{x} {y} {z} 9\n" for x, y, z in CORNERS)
        body += "".join(f"7 {len(f)} {' '.join(map(str, f))} {i} {'0.5 ' * i}\n" for i, f in enumerate(faces)) + "1\n"
        content = head.format(kind).encode() + body.encode()
    else:
        sign = "<" if kind == "binary_little_endian" else ">"
        content = head.format(kind).encode() + b"".join(struct.pack(f"{sign}3fB", *corner, 9) for corner in CORNERS)
        for i, f in enumerate(faces):
            content += struct.pack(f"{sign}BB{len(f)}IB{i}f", 7, len(f), *f, i, *[0.5] * i)
        content += struct.pack(f"{sign}h", 1)
    found = read_points(at(tmp_path, "mixed.ply", content))
    assert found.positions.tolist() == [list(corner) for corner in CORNERS]
    assert found.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 2], [0, 2, 3], [3, 2, 1]]
    for cut in (2, 3, 20, 40, 80):
        with pytest.raises(InputError, match="The file is cut off"):
            read_points(at(tmp_path, "cut.ply", content[:-cut]))
    windows = head.format(kind).replace("\n", "\r\n").encode() + content.partition(b"end_header\n")[2]
    assert torch.equal(read_points(at(tmp_path, "w.ply", windows)).faces, found.faces)


def test_a_ply_of_trimesh_comes_back(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    ball = trimesh.creation.icosphere(subdivisions=2)
    for encoding in ("ascii", "binary"):
        path = at(tmp_path, "ball.ply", ball.export(file_type="ply", encoding=encoding))
        found = read_points(path)
        assert np.allclose(found.positions.numpy(), ball.vertices, atol=1e-6)
        assert np.array_equal(found.faces.numpy(), ball.faces)


def test_a_ply_without_faces_is_points(tmp_path):
    cloud = ply("ascii").replace(FACES.encode(), b"end_header\n").rsplit(b"3 0 1 2", 1)[0]
    found = read_points(at(tmp_path, "cloud.ply", cloud))
    assert found.positions.tolist() == [list(corner) for corner in CORNERS]
    assert found.faces is None
    assert found.edges.shape == (0, 2)


def test_a_compressed_file_is_read_as_the_file_in_it(tmp_path):
    assert read_points(at(tmp_path, "w.xyz.gz", gzip.compress(WATER.encode()))).numbers.tolist() == [8, 1, 1]
    with pytest.raises(InputError, match=r"broken.xyz.gz cannot be read"):
        read_points(at(tmp_path, "broken.xyz.gz", WATER))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.xyz", "three\n", r"a.xyz, line 1: expected the number of atoms, a whole number, but found 'three'"),
        ("a.xyz", "0\n\n", r"a.xyz, line 1: there are 0 atoms"),
        ("a.xyz", "\n\n", r"a.xyz holds no points"),
        ("a.xyz", WATER.replace("O 0 0", "Oh 0 0"), r"line 3: there is no element 'Oh'"),
        ("a.xyz", WATER.replace("0.7572 ", "O.7572 "), r"line 4: coordinates: expected 3 numbers, but found '0 O.7572 -0.4692'"),
        ("a.xyz", WATER.replace("H 0 0.7572 ", "H "), r"line 4: expected an element and three coordinates"),
        ("a.xyz", WATER[: WATER.rindex("H")], r"a.xyz ends after line 4, where 3 atoms should follow. The file is cut off"),
        ("a.xyz", EXTENDED.replace("F 8", "F"), r"line 4: Properties say 9 columns, but the line of an atom has 8"),
        ("a.xyz", EXTENDED.replace("pos:R:3", "pos:R:2"), r"line 2: Properties .* have no pos:R:3"),
        ("a.xyz", EXTENDED.replace("Properties=", "Properties=b:"), r"line 2: Properties are name"),
        ("a.xyz", EXTENDED.replace("kind:I:1", "kind:I"), r"line 2: Properties are name:kind:columns"),
        ("a.xyz", EXTENDED.replace(" 6\"", "\""), r"line 2: Lattice is nine numbers"),
        ("a.xyz", EXTENDED.replace('b"', "b"), r"line 2: a quotation mark is not closed"),
        ("a.xyz", EXTENDED.replace("T 7", "T 7.5"), r"line 3: expected kind, a whole number, but found '7.5'"),
        ("a.xyz", WATER.replace("0.1173", "1_0"), r"line 3: coordinates: expected 3 numbers"),
        ("a.xyz", WATER.replace("O 0 0", "8" * 5000 + " 0 0"), r"line 3: there is no element '8{80}'"),
        ("a.xyz", EXTENDED.replace("species:S:1", "species:R:1"), r"line 2: species is one column of symbols"),
        ("a.xyz", EXTENDED.replace("kind:I:1", "pos:R:3"), r"line 2: Properties .* have a duplicate name"),
        ("a.xyz", EXTENDED.replace("T 7", "T " + "9" * 30), r"kind has a number that is too large"),
        ("a.xyz", EXTENDED.replace("4 0 0 0 5", "T 0 0 0 nan"), r"line 2: Lattice is nine numbers"),
        ("a.sdf", SDF.replace("$$$$\n", "") + SDF, r"line 18: after 'M  END' come data items"),
        ("a.cjson", "[" * 100_000, r"this is no JSON"),
        ("a.cjson", '{"atoms": {"coords": {"3d": [0, 0, 0]}, "elements": {"number": [8.5]}}}', r"there is no element 8.5"),
        ("a.cjson", '{"atoms": {"coords": {"3d": [0, 0, NaN]}, "elements": {"number": [8]}}}', r"3d should be a list of numbers"),
        ("a.cjson", '{"atoms": {"coords": {"3d": [0, 0, 0]}, "elements": {"number": [8]}}, "unitCell": {"cellVectors": [1]}}',
         r"cellVectors should be nine numbers"),
        ("a.cjson", '{"atoms": {"coords": {"3d": [0, 0, 0]}, "elements": {"number": [0]}}}', r"there is no element 0"),
        ("a.cjson", '{"atoms": {"coords": {"3d": [0, 0, 0, 1, 0, 0]}, "elements": {"number": [1, 1]}},'
         ' "bonds": {"connections": {"index": [0, 1]}, "order": [' + "9" * 30 + "]}}", r"bonds.order should be a list of numbers"),
        ("a.obj", "v 0 0 inf\n", r"line 1: a vertex: '0 0 inf' is no position"),
        ("a.sdf", SDF.replace("V2000", "V3000"), r"line 4: this molecule is in version V3000, and V2000 is read here. Convert it"),
        ("a.sdf", SDF.replace("  2  3  2", "  2  4  2"), r"line 9: this bond joins atoms 2 and 4, but there are 3"),
        ("a.sdf", SDF.replace(" S   0", " Xx  0"), r"line 5: there is no element 'Xx'"),
        ("a.sdf", SDF.replace("    0.0000    0.0000 S", "    0.0000           S"), r"line 5: coordinates: expected 3 numbers"),
        ("a.cjson", '{\n"atoms": ', r"a.cjson, line 2: this is no JSON"),
        ("a.cjson", '{"atoms": {}}', r"atoms.coords.3d should be a list of numbers, 3 for each atom"),
        ("a.cjson", '{"atoms": {"coords": {"3d": [0, 0, 0]}, "elements": {"number": [1, 1]}}}',
         r"has 3 numbers, and there are 2 atoms"),
        ("a.cjson", '{"atoms": {"coords": {"3d": [0, 0, 0]}, "elements": {"number": [1]}},'
         ' "bonds": {"connections": {"index": [0, 1]}}}', r"should be pairs of atoms 0..0"),
        ("a.obj", "v 0 0 0\nv 1 x 0\n", r"a.obj, line 2: a vertex: expected 3 numbers, but found '1 x 0'"),
        ("a.obj", QUADS.replace("f -3/9", "f -9/9"), r"line 9: a face has a corner that is not among the 5 vertices"),
        ("a.obj", QUADS.replace("f 1//1", "f 0//1"), r"line 8: a face has a corner"),
        ("a.obj", QUADS + "f 1 2\n", r"line 10: a face has three corners or more, but found 2"),
        ("a.ply", "solid\n", r"a.ply, line 1: a PLY file begins with the line 'ply'"),
        ("a.ply", ply("ascii").replace(b"3 0 2 3", b"3 0 2 4"), r"a.ply has a face with a corner that is not among its 4 vertices"),
        ("a.ply", ply("ascii").replace(b"3 0 2 3\n", b""), r"it has 2 of element face, but has 1. The file is cut off"),
        ("a.ply", ply("binary_little_endian")[:-20], r"it has 2 of element face, but has 0. The file is cut off"),
        ("a.ply", ply("ascii").replace(b"format ascii 1.0\n", b""), r"does not say its format"),
        ("a.ply", ply("ascii").replace(b"element vertex 4", b"element vertex -4"), r"line 4: there are -4 of element vertex"),
        ("a.ply", ply("ascii").replace(b"float x", b"flaot x"), r"line 5: 'property flaot x' is no line of a PLY header"),
        ("a.ply", ply("ascii").replace(b"float z", b"float w"), r"vertices without x, y and z"),
        ("a.ply", ply("ascii").replace(b"3 0 2 3", b"2 0 2"), r"a face with 2 corners"),
        ("a.ply", ply("ascii").replace(b"0.5 1.0 9", b"nan 1.0 9", 1), r"a vertex that stands nowhere"),
        ("a.ply", ply("ascii").replace(b"3 0 1 2", b"x 0 1 2"), r"cannot be read as PLY: element face"),
        ("a.ply", ply("binary_big_endian").replace(b"vertex 4", b"vertex 4000000000000"), r"The file is cut off"),
        ("a.ply", b"ply\nformat ascii 1.0\n", r"has no line end_header"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_named_with_its_line(tmp_path, name, content, words):
    with pytest.raises(InputError, match=words):
        read_frames(at(tmp_path, name, content))


def test_a_molecule_ends_where_its_sign_says_also_after_an_item_without_an_empty_line(tmp_path):
    text = SDF.replace("lines\n\n$$$$", "lines\n$$$$").replace("<remarks>", "<bond_order>")
    found = read_frames(at(tmp_path, "two.sdf", text + SDF))
    assert [one.values["title"] for one in found] == ["carbonyl sulfide"] * 2
    assert found[0].values["bond_order"].tolist() == [2, 2]  # the molecule's own
    assert found[1].values["remarks"] == "two\nlines"


def test_a_comment_of_extended_xyz_is_read_as_ase_reads_it(tmp_path):
    io = pytest.importorskip("ase.io")
    cell, columns = "Lattice='4 0 0 0 5 0 0 0 6'", "Properties=species:S:1:pos:R:3"
    lists = r"""dipole={1 2 3} charges=[1, -2, 3.5] pbc=[T, F, T] who="it\"s me" matrix=[[1,2],[3,4]]"""
    atoms = [" ".join(line.split()[:4]) for line in EXTENDED.splitlines()[2:]]
    path = at(tmp_path, "a.xyz", "\n".join(["2", f"{cell} {columns} {lists} smiles=C(=O)[O-] loose = 3 alone x=a=b", *atoms]))
    found, theirs = read_points(path), io.read(path)
    same_as_ase(found, theirs)
    assert np.array_equal(found.cell.numpy(), theirs.cell.array)
    assert found.values.pop("pbc") == theirs.pbc.tolist()
    charges = found.values.pop("charges")
    assert charges == [1, -2, 3.5]
    assert found.values.pop("matrix") == [[1, 2], [3, 4]]
    assert found.values.pop("smiles") == "C(=O)[O-]"
    assert {"dipole", "who", "loose", "alone", "x"} == set(found.values)
    known = theirs.info | (theirs.calc.results if theirs.calc else {})
    for name, value in found.values.items():
        assert np.array_equal(np.asarray(value), np.asarray(known[name])), name


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ('config_type= pbc="F F F"', {"config_type": "", "pbc": [False] * 3}),
        ("smiles=[H]O[H] energy=1.0", {"smiles": "[H]O[H]", "energy": 1.0}),
        ("smiles=[NH3+]CC(=O)[O-]", {"smiles": "[NH3+]CC(=O)[O-]"}),
        ("name='tis energy=1 [a note]", {"name": "'tis", "energy": 1, "[a": True, "note]": True}),
        ('a="x"; path="C:\\dir\\" energy=3', {"a": "x;", "path": "C:\\dir\\", "energy": 3}),
        ("deep=[[[1,2]]] energy=2 = config_type=", {"deep": "[[[1,2]]]", "energy": 2, "config_type": ""}),
    ],
)
def test_whatever_a_comment_says_besides_is_kept_as_it_stands(tmp_path, said, wanted):
    path = at(tmp_path, "a.xyz", f"1\nProperties=species:S:1:pos:R:3 {said}\nH 0 0 0\n")
    assert read_points(path).values == wanted


def test_a_lattice_that_people_write_of_is_a_comment(tmp_path):
    found = read_points(at(tmp_path, "a.xyz", "1\nCu fcc, Lattice = 3.61 A\nCu 0 0 0\n"))
    assert (found.cell, found.values) == (None, {"comment": "Cu fcc, Lattice = 3.61 A"})


def test_a_long_comment_takes_no_long_time(tmp_path):
    for said in ("x=[" + '"\\' * 50_000 + "]", "x=[" * 50_000, "'a " * 50_000):
        read_points(at(tmp_path, "a.xyz", f"1\nProperties=species:S:1:pos:R:3 {said}\nH 0 0 0\n"))


def test_a_cell_is_read_with_unnamed_columns_too(tmp_path):
    text = EXTENDED.replace("Properties=species:S:1:pos:R:3:forces:R:3:fixed:L:1:kind:I:1", "")
    found, named = read_points(at(tmp_path, "a.xyz", text)), read_points(at(tmp_path, "b.xyz", EXTENDED))
    assert torch.equal(found.cell, named.cell)
    assert torch.equal(found.positions, named.positions)
    assert found.values["energy"] == -1.5
    periodic = (
        '{"atoms": {"coords": {"3d": [0, 0, 0]}, "elements": {"number": [8]}}, "unitCell": {"cellVectors": [5,0,0,0,6,0,0,0,7]}}'
    )
    assert read_points(at(tmp_path, "a.cjson", periodic)).cell.diagonal().tolist() == [5, 6, 7]


def test_signs_that_begin_or_divide_texts_elsewhere_are_part_of_a_line_here(tmp_path):
    for sign in ("\u2028", "\x0c", "\x85"):
        assert read_points(at(tmp_path, "a.xyz", WATER.replace("water", f"wa{sign}ter"))).values["comment"] == f"wa{sign}ter"
    assert len(read_points(at(tmp_path, "a.obj", "\ufeff" + QUADS)).positions) == 5
    assert len(read_points(at(tmp_path, "b.xyz", "\ufeff" + WATER)).positions) == 3


def test_comments_and_lines_that_go_on_are_read_in_a_mesh(tmp_path):
    plain = read_points(at(tmp_path, "a.obj", QUADS))
    other = QUADS.replace("3//1 4//1", "3//1 \\\n4//1 # the square")
    assert torch.equal(read_points(at(tmp_path, "b.obj", other)).faces, plain.faces)
    assert len(
        read_points(at(tmp_path, "a.ply", ply("ascii").replace(b"element v", b"comment element vertex 10\nelement v", 1))).positions
    )


@pytest.mark.parametrize("place", range(0, 60, 3))
def test_a_packed_file_with_a_wrong_byte_is_said(tmp_path, place):
    packed = bytearray(gzip.compress(WATER.encode()))
    packed[place % len(packed)] ^= 0x55
    with suppress(EquiscopeError):
        read_points(at(tmp_path, "w.xyz.gz", bytes(packed)))


def test_a_kind_of_file_that_is_not_read_lists_those_that_are(tmp_path):
    with pytest.raises(UnknownName, match=r"no reader of points called '.pdb'. Known: .cjson, .extxyz, .obj, .ply, .sdf, .xyz"):
        read_points(tmp_path / "a.pdb")
    with pytest.raises(InputError, match=r"a.xyz cannot be read: .*No such file"):
        read_points(tmp_path / "a.xyz")


def test_atoms_are_marked_by_their_element_and_stand_at_their_places(tmp_path):
    water = read_points(at(tmp_path, "w.xyz", WATER))
    tokens = atoms(water, elements=(1, 6, 8))
    assert tokens.x.tolist() == [[0, 0, 1], [1, 0, 0], [1, 0, 0]]
    assert torch.equal(tokens.positions, water.positions)
    assert atoms(water).x.argmax(-1).tolist() == [7, 0, 0]
    assert atoms(water).x.shape == (3, 118)
    with pytest.raises(InputError, match=r"an atom with number 8, but elements are 1, 6. Add it"):
        atoms(water, elements=(1, 6))
    with pytest.raises(InputError, match=r"no atomic numbers. Use vertices\(points\)"):
        atoms(Points(water.positions))
    assert vertices(water).x.tolist() == [[1.0]] * 3


@pytest.mark.usefixtures("unchecked")
def test_points_of_another_shape_are_refused():
    with pytest.raises(ShapeError, match=r"positions \[N, 3\], but got shape \(4, 2\)"):
        Points(torch.zeros(4, 2).double())
    with pytest.raises(ShapeError, match=r"There are 4 points, but numbers has shape \(3,\)"):
        Points(torch.zeros(4, 3).double(), numbers=torch.ones(3).long())


DAMAGED = {
    "a.xyz": WATER,
    "b.xyz": EXTENDED,
    "a.sdf": SDF,
    "a.obj": QUADS,
    "a.cjson": '{"atoms": {"coords": {"3d": [0, 0, 0, 1, 0, 0]}, "elements": {"number": [1, 1]}},\n'
    ' "bonds": {"connections": {"index": [0, 1]}, "order": [1]}, "properties": {"name": "hydrogen"}}',
}


@pytest.mark.parametrize("name", DAMAGED)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.data())
def test_a_damaged_file_is_read_or_refused_and_nothing_else(tmp_path, name, cut):
    """Some bytes in the middle are lost or replaced."""
    content = DAMAGED[name].encode()
    first = cut.draw(st.integers(0, len(content)))
    rest = cut.draw(st.integers(first, min(first + 12, len(content))))
    noise = cut.draw(st.text('0123456789-. \nTFx"={}[],/:é', max_size=4)).encode()
    with suppress(EquiscopeError):  # any other error fails
        read_frames(at(tmp_path, name, content[:first] + noise + content[rest:]))


def test_runs_of_faces_with_different_corners_are_read_quickly_and_as_they_stand(tmp_path):
    draw = np.random.default_rng(0)
    faces = [draw.integers(0, 4, 3 + i % 2 if i < 3000 else 3 + (i % 100 == 0)).tolist() for i in range(9000)]
    head = "element vertex 4\nproperty float x\nproperty float y\nproperty float z\nelement face 9000\n"
    head = f"ply\nformat binary_big_endian 1.0\n{head}property list uchar int64 vertex_indices\nproperty short s\nend_header\n"
    rows = b"".join(struct.pack(f">B{len(face)}qh", len(face), *face, 7) for face in faces)
    content = head.encode() + np.zeros((4, 3), ">f4").tobytes() + rows
    assert ply_file.read(tmp_path / "a.ply", content)[1] == faces
    with pytest.raises(InputError, match=r"says that it has 9000 of element face, but has 8999"):
        ply_file.read(tmp_path / "a.ply", content[:-1])


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (b"list uchar int vertex_indices", b"int vertex_indices", "faces whose vertex_indices is no list of whole numbers"),
        (b"list uchar int vertex_indices", b"list uchar float vertex_indices", "faces whose vertex_indices is no list of whole"),
        (b"property float x", b"property list uchar float x", "vertices without x, y and z, a number each"),
        (b"end_header", b"element face 1\nproperty list uchar int vertex_indices\nend_header", "more than one element face"),
        (b"end_header", b"element tristrips 1\nproperty list int int vertex_indices\nend_header", "strips of triangles"),
        (b"3 0 2 3", b"0", "a face with 0 corners"),
        (b"1.0 0.5 1.0", b"1_0 0.5 1.0", "'1_0' is no number"),
    ],
)
def test_a_ply_whose_faces_or_vertices_are_none_is_refused(tmp_path, before, after, words):
    content = ply("ascii")
    assert before in content
    with pytest.raises(InputError, match=words):
        read_points(at(tmp_path, "a.ply", content.replace(before, after, 1)))


def test_a_comment_that_ends_in_a_backslash_takes_no_line(tmp_path):
    found = read_points(at(tmp_path, "a.obj", "# C:\\dir\\\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"))
    assert found.positions.shape == (3, 3)


def test_a_value_of_a_frame_stays_beside_a_column_of_that_name(tmp_path):
    found = read_points(at(tmp_path, "a.xyz", "1\nProperties=species:S:1:pos:R:3:energy:R:1 energy=5\nC 0 0 0 1\n"))
    assert (found.values["energy"], found.values["energy of atoms"].tolist()) == (5, [1.0])
    items = SDF.replace("> <remarks>", "> DT12").replace("> <energy>", "> <title>")
    values = read_points(at(tmp_path, "a.sdf", items)).values
    assert (values["title"], values["title of the file"], values["DT12"]) == ("carbonyl sulfide", "-1.25", "two\nlines")


@pytest.mark.parametrize("key", ["unitCell", "unit cell"])
def test_a_cell_of_lengths_and_angles_is_that_of_ase(tmp_path, key):
    cellpar = pytest.importorskip("ase.geometry").cellpar_to_cell
    sizes = dict(zip(("a", "b", "c", "alpha", "beta", "gamma"), (4.0, 5.0, 6.0, 80.0, 95.0, 110.0), strict=True))
    said = {"atoms": {"coords": {"3d": [0, 0, 0]}, "elements": {"number": [8]}}, key: sizes}
    found = read_points(at(tmp_path, "a.cjson", json.dumps(said)))
    assert np.allclose(found.cell.numpy(), cellpar(list(sizes.values())), atol=1e-12)
    assert read_points(at(tmp_path, "a.cjson", json.dumps(said | {key: {"spaceGroup": "P1"}}))).cell is None
    with pytest.raises(InputError, match="or unitCell has their lengths a, b, c and the angles"):
        read_points(at(tmp_path, "a.cjson", json.dumps(said | {key: sizes | {"gamma": 200.0}})))
