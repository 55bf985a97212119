import { describe, expect, test } from "vitest";
import { OPERATIONS, type Params } from "../src/core/ops";
import { erf } from "../src/core/ops/erf";
import { indexAt, type Nested, of, size, type Tensor, tensor } from "../src/core/tensor";
import { reading } from "./reading";

const run = (op: string, inputs: Nested[], params: Params = {}): Tensor => OPERATIONS[op].evaluate(inputs.map(of), params);
const X = [
  [1, 2],
  [0, 2],
  [1, 1],
];

describe("facts worked out by hand", () => {
  test.each<[string, string, Nested[], Params, Nested]>([
    [
      "a row times a column",
      "matmul",
      [
        X,
        [
          [1, -1],
          [0, 1],
        ],
      ],
      {},
      [
        [1, 1],
        [0, 2],
        [1, 0],
      ],
    ],
    [
      "a list times a matrix",
      "matmul",
      [
        [1, 2],
        [
          [1, 0, 3],
          [0, 1, 1],
        ],
      ],
      {},
      [1, 2, 5],
    ],
    ["a matrix times a list", "matmul", [X, [1, 10]], {}, [21, 20, 11]],
    [
      "one matrix for a batch",
      "matmul",
      [
        [[[1, 2]], [[3, 4]]],
        [[1], [1]],
      ],
      {},
      [[[3]], [[7]]],
    ],
    [
      "a bias on every row",
      "add",
      [X, [10, 20]],
      {},
      [
        [11, 22],
        [10, 22],
        [11, 21],
      ],
    ],
    [
      "column minus row",
      "subtract",
      [[[1], [2]], [[0, 5]]],
      {},
      [
        [1, -4],
        [2, -3],
      ],
    ],
    ["one slope a head", "multiply", [[[[1]], [[2]]], [[1, 2]]], {}, [[[1, 2]], [[2, 4]]]],
    ["a number on a matrix", "multiply", [3, [[1, 2]]], {}, [[3, 6]]],
    [
      "a column by a row",
      "divide",
      [[[6], [3]], [[2, 4]]],
      {},
      [
        [3, 1.5],
        [1.5, 0.75],
      ],
    ],
    [
      "the larger one",
      "maximum",
      [[[0, 3]], [[1], [-1]]],
      {},
      [
        [1, 3],
        [0, 3],
      ],
    ],
    ["within bounds", "clamp", [[-5, -2, 0.5, 2, 7]], { low: -2, high: 2 }, [-2, -2, 0.5, 2, 2]],
    ["scaling", "scale", [[2, -4]], { by: 0.5 }, [1, -2]],
    [
      "distances",
      "distance",
      [[[0], [3]], [[0, 1, 2]]],
      {},
      [
        [0, 1, 2],
        [3, 2, 1],
      ],
    ],
    ["relu", "activation", [[-1, 0, 2]], { kind: "relu" }, [0, 0, 2]],
    ["a power of e", "function", [[0, Math.log(3)]], { kind: "exp" }, [1, 3]],
    ["a logarithm", "function", [[0, Math.E - 1]], { kind: "log1p" }, [0, 1]],
    ["a root", "function", [[0, 9]], { kind: "sqrt" }, [0, 3]],
    ["a square", "function", [[-3, 0.5]], { kind: "square" }, [9, 0.25]],
    ["down to a whole number", "function", [[-1.5, 1.5, 2]], { kind: "floor" }, [-2, 1, 2]],
    ["halves to the even one", "function", [[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4]], { kind: "round" }, [-2, -2, 0, 0, 2, 2, 2]],
    ["a half of certainty", "function", [[0, Math.log(3)]], { kind: "sigmoid" }, [0.5, 0.75]],
    ["a soft corner", "function", [[0, 30]], { kind: "softplus" }, [Math.LN2, 30]],
    // T5's decoder: 32 buckets, of which 16 for single steps and 16 for ln(steps / 16) / ln(128 / 16)
    [
      "buckets behind",
      "bucket",
      [[-1, 0, 15, 16, 20, 127, 128, 999]],
      { buckets: 32, max_distance: 128, bidirectional: false },
      [0, 0, 15, 16, 17, 31, 31, 31],
    ],
    // T5's encoder: 16 for each side, 8 and 8; ln(16 / 8) / ln(128 / 8) is a quarter of 8
    [
      "buckets on both sides",
      "bucket",
      [[0, 7, 8, 16, 200, -1, -7, -8, -16, -200]],
      { buckets: 32, max_distance: 128, bidirectional: true },
      [0, 7, 8, 10, 15, 17, 23, 24, 26, 31],
    ],
    [
      "a bucket that begins where the logarithm is whole",
      "bucket",
      [[2, 3, -3]],
      { buckets: 6, max_distance: 9, bidirectional: true },
      [1, 2, 5],
    ],
    [
      "the bucket of a place that is no whole number",
      "bucket",
      [[2.9999999, 0.5, -1.5]],
      { buckets: 8, max_distance: 16, bidirectional: true },
      [2, 0, 6],
    ],
    ["a quarter turn, side by side", "rotate", [[[1, 0, 0, 1]], [[Math.PI / 2, 0]]], { layout: "interleaved" }, [[0, 1, 0, 1]]],
    ["a quarter turn, in halves, the rest unturned", "rotate", [[[1, 0, 7]], [[Math.PI / 2]]], { layout: "half" }, [[0, 1, 7]]],
    [
      "one angle a head",
      "rotate",
      [
        [[[1, 0]], [[1, 0]]],
        [[[0]], [[Math.PI / 2]]],
      ],
      { layout: "half" },
      [[[1, 0]], [[0, 1]]],
    ],
    [
      "one angle for all heads of a sequence",
      "rotate",
      [[[[[1, 0]], [[0, 1]]]], [[[Math.PI / 2]]]],
      { layout: "half" },
      [[[[0, 1]], [[-1, 0]]]],
    ],
    ["clocks side by side", "sinusoid", [[[0, Math.PI / 2]]], { layout: "interleaved" }, [[0, 1, 1, 0]]],
    ["clocks in halves", "sinusoid", [[[0, Math.PI / 2]]], { layout: "half" }, [[0, 1, 1, 0]]],
    ["sines only", "sinusoid", [[[0, Math.PI / 2]]], { layout: "sine" }, [[0, 1]]],
    [
      "not what comes later",
      "not_after",
      [[[0, 1]], [[0], [1]]],
      {},
      [
        [1, 0],
        [1, 1],
      ],
    ],
    [
      "both",
      "both",
      [[[1, 1]], [[1], [0]]],
      {},
      [
        [1, 1],
        [0, 0],
      ],
    ],
    [
      "either",
      "either",
      [[[1, 0]], [[1], [0]]],
      {},
      [
        [1, 1],
        [1, 0],
      ],
    ],
    ["not", "opposite", [[[true, false]]], {}, [[0, 1]]],
    [
      "the same place",
      "equal",
      [[[0, 1]], [[0], [1]]],
      {},
      [
        [1, 0],
        [0, 1],
      ],
    ],
    ["near", "below", [[0, 2, 3]], { number: 2 }, [1, 0, 0]],
    ["every third", "modulo", [[0, 4, -1, -3]], { by: 3 }, [0, 1, 2, 0]],
    ["blocks of three", "block", [[0, 2, 3, -1]], { size: 3 }, [0, 0, 1, -1]],
    [
      "hiding",
      "mask",
      [
        [
          [1, 2],
          [3, 4],
        ],
        [[true, false]],
      ],
      {},
      [
        [1, -Infinity],
        [3, -Infinity],
      ],
    ],
    ["weights", "softmax", [[[0, Math.log(3)]]], {}, [[0.25, 0.75]]],
    ["a row that may look nowhere", "softmax", [[[-Infinity, -Infinity]]], {}, [[0, 0]]],
    ["scores beyond what e^x can hold", "softmax", [[[1000, 1000]]], {}, [[0.5, 0.5]]],
    [
      "shares of a row",
      "share",
      [
        [
          [1, 3],
          [0, 0],
        ],
      ],
      {},
      [
        [0.25, 0.75],
        [0, 0],
      ],
    ],
    [
      "sums over what is not before",
      "later",
      [
        [
          [1, 2, 4],
          [10, 0, 1],
        ],
        [[0, 1, 2]],
      ],
      {},
      [
        [7, 6, 4],
        [11, 1, 1],
      ],
    ],
    ["sums over what is not before, in another order", "later", [[[1, 2, 4]], [[5, 0, 2]]], {}, [[1, 7, 5]]],
    ["of equal places the later column is later", "later", [[[1, 2, 4]], [[0, 0, 0]]], {}, [[7, 6, 4]]],
    [
      "one order a sequence",
      "later",
      [
        [[[1, 2]], [[1, 2]]],
        [[[0, 1]], [[1, 0]]],
      ],
      {},
      [[[3, 2]], [[1, 3]]],
    ],
    ["LayerNorm's core", "norm", [[[1, 3]]], { center: true, eps: 0 }, [[-1, 1]]],
    ["RMSNorm's core", "norm", [[[3, 4, 0, 0]]], { center: false, eps: 0 }, [[1.2, 1.6, 0, 0]]],
    [
      "rows of a table",
      "gather",
      [
        [
          [1, 2],
          [3, 4],
        ],
        [1, 0, 1],
      ],
      {},
      [
        [3, 4],
        [1, 2],
        [3, 4],
      ],
    ],
    [
      "rows side by side, zeros beyond the edge",
      "neighbours",
      [
        [
          [1, 2],
          [3, 4],
        ],
        [
          [-1, 0],
          [1, 1],
        ],
      ],
      {},
      [
        [0, 0, 1, 2],
        [3, 4, 3, 4],
      ],
    ],
    [
      "numbers of a list, in the index's shape",
      "gather",
      [
        [5, 6],
        [[[0]], [[1]]],
      ],
      {},
      [[[5]], [[6]]],
    ],
    [
      "one number of each row for every pair",
      "take",
      [
        [
          [5, 6, 7],
          [8, 9, 10],
        ],
        [
          [0, 2],
          [1, 1],
        ],
      ],
      {},
      [
        [5, 7],
        [9, 9],
      ],
    ],
    ["the same choice for every sequence and row", "take", [[[[5, 6]], [[7, 8]]], [[1, 1, 0]]], {}, [[[6, 6, 5]], [[8, 8, 7]]]],
    [
      "into bins",
      "bins",
      [
        [
          [1, 2, 4],
          [1, 2, 4],
        ],
        [
          [0, 2, 0],
          [1, 1, 1],
        ],
      ],
      { count: 3 },
      [
        [5, 0, 2],
        [0, 7, 0],
      ],
    ],
    ["the same bins for every sequence", "bins", [[[[1, 2]], [[3, 4]]], [[1, 0]]], { count: 2 }, [[[2, 1]], [[4, 3]]]],
    [
      "some columns",
      "columns",
      [
        [
          [1, 2, 3, 4],
          [5, 6, 7, 8],
        ],
      ],
      { start: 1, stop: 3 },
      [
        [2, 3],
        [6, 7],
      ],
    ],
    ["each head twice", "repeat_heads", [[[[1, 2]], [[3, 4]]]], { times: 2 }, [[[1, 2]], [[1, 2]], [[3, 4]], [[3, 4]]]],
    [
      "more columns",
      "concat",
      [
        [[1], [2]],
        [[3], [4]],
      ],
      { axis: -1 },
      [
        [1, 3],
        [2, 4],
      ],
    ],
    [
      "a row in front of every sequence",
      "concat",
      [[[0, 0]], [[[1, 2]], [[3, 4]]]],
      { axis: -2 },
      [
        [
          [0, 0],
          [1, 2],
        ],
        [
          [0, 0],
          [3, 4],
        ],
      ],
    ],
    [
      "one matrix a head",
      "heads",
      [
        [
          [1, 2, 3, 4],
          [5, 6, 7, 8],
        ],
      ],
      { count: 2 },
      [
        [
          [1, 2],
          [5, 6],
        ],
        [
          [3, 4],
          [7, 8],
        ],
      ],
    ],
    [
      "heads side by side",
      "join",
      [
        [
          [
            [1, 2],
            [5, 6],
          ],
          [
            [3, 4],
            [7, 8],
          ],
        ],
      ],
      {},
      [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
      ],
    ],
    [
      "rows become columns",
      "transpose",
      [X],
      {},
      [
        [1, 0, 1],
        [2, 2, 1],
      ],
    ],
    ["a column", "column", [[1, 2]], {}, [[1], [2]]],
    ["a row", "row", [[1, 2]], {}, [[1, 2]]],
    ["a column as a list", "squeeze", [[[1], [2]]], {}, [1, 2]],
    ["for all heads", "broadcast_heads", [[[1, 2]]], {}, [[[1, 2]]]],
    ["mean of rows", "mean", [X], {}, [2 / 3, 5 / 3]],
    ["mean of real rows", "mean", [X, [1, 1, 0]], {}, [0.5, 2]],
    ["mean of no rows", "mean", [X, [0, 0, 0]], {}, [0, 0]],
    ["the last row", "pick", [X], { index: -1 }, [1, 1]],
    ["all rows in a line", "flatten", [X], {}, [1, 2, 0, 2, 1, 1]],
  ])("%s", (_, op, inputs, params, wanted) => {
    const [found, right] = [run(op, inputs, params), of(wanted)];
    expect(found.shape).toEqual(right.shape);
    right.data.forEach((value, i) => expect(found.data[i]).toBeCloseTo(value, 12));
  });
});

test("attention of three words has the weights of the worked example", () => {
  const [q, k, v] = [
    [
      [1, -1],
      [0, 1],
    ],
    [
      [1, 0],
      [1, -1],
    ],
    [
      [1, 0],
      [1, 1],
    ],
  ].map((w) => run("matmul", [X, w]));
  const { matmul, transpose, scale, softmax } = OPERATIONS;
  const scores = scale.evaluate([matmul.evaluate([q, transpose.evaluate([k], {})], {})], { by: 1 / Math.SQRT2, root: 2 });
  const z = matmul.evaluate([softmax.evaluate([scores], {}), v], {});
  expect([...z.data].map((value) => value.toFixed(2))).toEqual(["2.40", "1.60", "2.16", "1.33", "2.50", "1.75"]);
});

test("the weights of a row that may look at some places only show the hidden ones without counting them", () => {
  const scores = of([[0, -Infinity, Math.log(3)]]);
  const { terms, more, value } = OPERATIONS.softmax.explain([scores], {}, [0, 2], scores);
  expect(terms.filter((term) => "input" in term)).toEqual([2, 0, 2].map((column) => ({ input: 0, index: [0, column] })));
  expect(more).toEqual([{ input: 0, index: [0, 1] }]);
  expect(value).toBeCloseTo(0.75, 15);
});

test("a sum of more than eight products prints the first four and the last, and points at all", () => {
  const [a, b] = [of([[1, 2, 3, 4, 5, 6, 7, 8, 9]]), of([1, 1, 1, 1, 1, 1, 1, 1, 1])];
  const { terms, more, value } = OPERATIONS.matmul.explain([a, b], {}, [0], a);
  expect(terms.map((term) => ("text" in term ? term.text : term.index.at(-1))).join("")).toBe("0·0 + 1·1 + 2·2 + 3·3 + … + 8·8");
  expect([more!.length, value]).toEqual([8, 45]);
});

test("a sum of more than eight products leaves out those that are 0, says so, and points at them too", () => {
  const [a, b] = [of([[0, 0, 3, 0, 5, 0, 0, 0, 0]]), of([1, 1, 1, 1, 2, 1, 1, 1, 1])];
  const { terms, more, value, note } = OPERATIONS.matmul.explain([a, b], {}, [0], a);
  expect(terms.map((term) => ("text" in term ? term.text : term.index.at(-1))).join("")).toBe("2·2 + 4·4");
  expect([more!.length, value, note]).toEqual([14, 13, "products that are 0 are left out"]);
});

test.each([
  { buckets: 16, max_distance: 40, bidirectional: true },
  { buckets: 16, max_distance: 40, bidirectional: false },
  { buckets: 16, max_distance: 36, bidirectional: true },
])("the line of a bucket reads true for near, farther and farthest gaps: %j", (params) => {
  const gaps = of(Array.from({ length: 101 }, (_, i) => i - 50));
  const buckets = OPERATIONS.bucket.evaluate([gaps], params);
  expect(new Set(buckets.data).size).toBe(params.bidirectional ? 15 : 16); // no gap is in the upper half and 0
  buckets.data.forEach((bucket, i) => {
    expect(reading(OPERATIONS.bucket.explain([gaps], params, [i], buckets), [gaps])).toBe(bucket);
  });
});

test("a row that sums to 0 has nothing to divide by", () => {
  const row = of([1, -1]);
  expect([...run("share", [[1, -1]]).data]).toEqual([1, -1]);
  expect(OPERATIONS.share.explain([row], {}, [0], row).value).toBe(1);
});

test.each([
  // Python's math.erf
  [0, 0],
  [1e-10, 1.1283791670955126e-10],
  [0.5, 0.5204998778130465],
  [1, 0.8427007929497149],
  [-1.5, -0.9661051464753108],
  [2.4, 0.999311486103355],
  [2.6, 0.9997639655834707],
  [4, 0.9999999845827421],
  [7, 1],
  [-Infinity, -1],
])("erf(%d) is exact to the last digits", (x, wanted) =>
  expect(Math.abs(erf(x) - wanted)).toBeLessThanOrEqual(4e-16 * Math.abs(wanted)),
);

describe("refusals", () => {
  test.each<[string, Nested[], Params, string]>([
    ["gather", [[0, 1, 2, 3, 4, 5, 6, 7], [9]], {}, "asks for row 9 of a table with rows 0..7"],
    ["neighbours", [[[0], [1]], [[2]]], {}, "asks for row 2 of rows 0..1"],
    ["gather", [[0, 1], [-1]], {}, "asks for row -1 of a table with rows 0..1"],
    ["matmul", [[[1, 2]], [[1, 2]]], {}, "Rows of 2 numbers cannot meet columns of 1"],
    [
      "add",
      [
        [1, 2],
        [1, 2, 3],
      ],
      {},
      "do not fit: 2 against 3",
    ],
    ["take", [[[5, 6]], [[2]]], {}, "asks for column 2 of rows with columns 0..1"],
    ["bins", [[[5]], [[-1]]], { count: 2 }, "no bin -1: there are bins 0..1"],
    ["bins", [[[5, 6]], [[0]]], { count: 2 }, "2 columns need one bin each, found 1"],
    ["later", [[[5, 6]], [[0]]], {}, "2 columns need one position each, but got 1"],
    ["columns", [[[1, 2]]], { start: 1, stop: 3 }, "asks for columns 1..2 of columns 0..1"],
    ["function", [[1]], { kind: "log" }, "There is no function called 'log'"],
    ["heads", [[[1, 2, 3]]], { count: 2 }, "2 heads do not divide 3 columns"],
    ["pick", [X], { index: 3 }, "asks for row 3 of 3"],
    ["activation", [[1]], { kind: "swish" }, "There is no activation called 'swish'"],
  ])("%s says what is wrong", (op, inputs, params, words) => expect(() => run(op, inputs, params)).toThrow(words));
});

// --- laws over every operation -------------------------------------------------------------------------------------------
const LAWS: [string, number[][], Params][] = [
  [
    "matmul",
    [
      [2, 3, 2, 9],
      [3, 9, 4],
    ],
    {},
  ],
  ["matmul", [[4], [2, 4, 3]], {}],
  ["matmul", [[2, 2, 5], [5]], {}],
  [
    "add",
    [
      [2, 3],
      [2, 3],
    ],
    {},
  ],
  [
    "add",
    [
      [2, 1, 3],
      [4, 1],
    ],
    {},
  ],
  [
    "subtract",
    [
      [3, 1],
      [1, 4],
    ],
    {},
  ],
  ["multiply", [[], [2, 3]], {}],
  [
    "distance",
    [
      [2, 3, 1],
      [2, 1, 3],
    ],
    {},
  ],
  [
    "divide",
    [
      [2, 3],
      [2, 1],
    ],
    {},
  ],
  [
    "maximum",
    [
      [2, 1, 3],
      [4, 1],
    ],
    {},
  ],
  ["clamp", [[9]], { low: -1.5, high: 0.5 }],
  ["scale", [[2, 3]], { by: -1 }],
  ["scale", [[2, 3]], { by: 1 / Math.sqrt(8), root: 8 }],
  ["scale", [[3]], { by: 0.3 }],
  ["activation", [[9]], { kind: "relu" }],
  ["activation", [[9]], { kind: "gelu" }],
  ["activation", [[9]], { kind: "silu" }],
  ["activation", [[9]], { kind: "tanh" }],
  ["function", [[9]], { kind: "exp" }],
  ["function", [[9]], { kind: "log1p" }],
  ["function", [[9]], { kind: "sqrt" }],
  ["function", [[9]], { kind: "square" }],
  ["function", [[9]], { kind: "floor" }],
  ["function", [[9]], { kind: "round" }],
  ["function", [[9]], { kind: "sigmoid" }],
  ["function", [[9]], { kind: "softplus" }],
  ["bucket", [[30, 2]], { buckets: 12, max_distance: 20, bidirectional: true }],
  ["bucket", [[30, 2]], { buckets: 12, max_distance: 20, bidirectional: false }],
  ["sinusoid", [[2, 3, 2]], { layout: "interleaved" }],
  ["sinusoid", [[3, 2]], { layout: "half" }],
  ["sinusoid", [[3, 2]], { layout: "sine" }],
  [
    "rotate",
    [
      [3, 4],
      [3, 2],
    ],
    { layout: "interleaved" },
  ],
  [
    "rotate",
    [
      [2, 3, 7],
      [3, 2],
    ],
    { layout: "half" },
  ],
  [
    "rotate",
    [
      [2, 3, 4, 5],
      [2, 4, 2],
    ],
    { layout: "half" },
  ],
  [
    "rotate",
    [
      [2, 3, 4, 5],
      [2, 4, 2],
    ],
    { layout: "interleaved" },
  ],
  [
    "rotate",
    [
      [2, 3, 4, 5],
      [2, 3, 4, 2],
    ],
    { layout: "interleaved" },
  ],
  [
    "rotate",
    [
      [3, 4, 5],
      [3, 4, 2],
    ],
    { layout: "half" },
  ],
  [
    "not_after",
    [
      [1, 3],
      [3, 1],
    ],
    {},
  ],
  ["both", [[2, 3], [3]], {}],
  ["either", [[2, 3], [3]], {}],
  ["opposite", [[2, 3]], {}],
  [
    "equal",
    [
      [2, 1, 3],
      [3, 1],
    ],
    {},
  ],
  ["below", [[9]], { number: 0.5 }],
  ["modulo", [[9]], { by: 3 }],
  ["block", [[9]], { size: 3 }],
  [
    "mask",
    [
      [2, 3, 3],
      [3, 3],
    ],
    {},
  ],
  ["softmax", [[2, 3, 9]], {}],
  ["softmax", [[2, 10]], {}],
  ["share", [[2, 9]], {}],
  ["share", [[2, 3]], {}],
  [
    "later",
    [
      [2, 3, 9],
      [2, 1, 9],
    ],
    {},
  ],
  [
    "later",
    [
      [2, 3, 4, 5],
      [1, 5],
    ],
    {},
  ],
  ["norm", [[2, 9]], { center: true, eps: 1e-5 }],
  ["norm", [[2, 4]], { center: false, eps: 1e-6 }],
  [
    "concat",
    [
      [2, 3],
      [4, 2, 1],
    ],
    { axis: -1 },
  ],
  [
    "concat",
    [
      [4, 1, 3],
      [2, 3],
    ],
    { axis: -2 },
  ],
  ["concat", [[2], [3]], { axis: -1 }],
  [
    "take",
    [
      [2, 4, 3],
      [4, 5],
    ],
    {},
  ],
  [
    "take",
    [
      [4, 3],
      [2, 1, 5],
    ],
    {},
  ],
  [
    "bins",
    [
      [2, 4, 9],
      [4, 9],
    ],
    { count: 3 },
  ],
  [
    "bins",
    [
      [4, 20],
      [2, 1, 20],
    ],
    { count: 2 },
  ],
  ["columns", [[2, 3, 6]], { start: 2, stop: 5 }],
  ["repeat_heads", [[2, 3, 4, 2]], { times: 2 }],
  ["heads", [[2, 3, 6]], { count: 3 }],
  ["join", [[2, 3, 4, 2]], {}],
  ["transpose", [[2, 3, 4]], {}],
  ["cast", [[2, 3, 4]], { dtype: "float32" }],
  ["column", [[2, 3]], {}],
  ["row", [[2, 3]], {}],
  ["squeeze", [[2, 1]], {}],
  ["squeeze", [[2, 3]], {}],
  ["broadcast_heads", [[2, 3, 4]], {}],
  ["mean", [[2, 9, 3]], {}],
  [
    "mean",
    [
      [2, 5, 3],
      [2, 5],
    ],
    {},
  ],
  ["pick", [[2, 3, 4]], { index: -2 }],
  ["flatten", [[2, 3, 4]], {}],
  [
    "gather",
    [
      [4, 2, 3],
      [2, 5],
    ],
    {},
  ],
  [
    "neighbours",
    [
      [2, 4, 3],
      [5, 2],
    ],
    {},
  ],
];

test("the laws run over every operation that explains its cells", () =>
  expect(new Set([...LAWS.map(([op]) => op), "loops"])).toEqual(new Set(Object.keys(OPERATIONS))));

test.each(LAWS)("%s of %j %j explains every cell truly, with cells that exist", (name, shapes, params) => {
  const [op, inputs] = [OPERATIONS[name], shapes.map((shape, i) => given(name, params, shape, i))];
  const output = op.evaluate(inputs, params);
  output.data.forEach((number, place) => {
    const index = indexAt(output.shape, place);
    const explanation = op.explain(inputs, params, index, output);
    const line = reading(explanation, inputs);
    expect(explanation.value).toBeCloseTo(number, 12);
    if (line !== undefined) expect(line).toBeCloseTo(number, name === "norm" || params.by === 0.3 ? 4 : 9);
    for (const part of [...explanation.terms, ...(explanation.more ?? [])]) {
      if (!("input" in part)) continue;
      const { shape } = inputs[part.input];
      expect(part.index.length).toBe(shape.length);
      expect(part.index.every((i, axis) => i >= 0 && i < shape[axis])).toBe(true);
    }
  });
});

test.each(LAWS)("%s of %j %j depends on the cells that it shows, and on no others", (name, shapes, params) => {
  const [op, inputs] = [OPERATIONS[name], shapes.map((shape, i) => given(name, params, shape, i))];
  const output = op.evaluate(inputs, params);
  const index = indexAt(output.shape, output.data.length - 1);
  const { terms, more = [] } = op.explain(inputs, params, index, output);
  const shown = [...terms, ...more].flatMap((part) => ("input" in part ? [`${part.input}:${part.index}`] : []));
  inputs.forEach((x, input) => {
    x.data.forEach((_, place) => {
      if (shown.includes(`${input}:${indexAt(x.shape, place)}`)) return;
      const other = tensor(
        x.shape,
        x.data.map((value, i) => (i === place ? 1 - value : value)),
      );
      expect(
        op
          .evaluate(
            inputs.map((y, i) => (i === input ? other : y)),
            params,
          )
          .data.at(-1),
      ).toBe(output.data.at(-1));
    });
  });
});

test.each(LAWS)("%s of %j %j writes a formula with its inputs' symbols only", (name, shapes, params) => {
  const written = JSON.stringify(
    OPERATIONS[name].formula(
      shapes.map((_, i) => `X${i}`),
      params,
    ),
  );
  const symbols = [...written.matchAll(/"symbol":(\d+)/g)].map(([, number]) => Number(number));
  expect(new Set(symbols)).toEqual(new Set(shapes.keys()));
});

/** Numbers without a pattern; flags, row numbers, or numbers above 0 where the operation wants them. */
function given(op: string, { kind }: Params, shape: number[], input: number): Tensor {
  const flags = ["both", "either", "opposite"].includes(op) || (input === 1 && ["mask", "mean"].includes(op));
  const rows = op === "equal" || (input === 1 && ["gather", "neighbours", "take", "bins"].includes(op));
  const positive = op === "share" || kind === "log1p" || kind === "sqrt";
  const number = (i: number) => Math.sin(12.9898 * (i + 1) + 78.233 * input) * (op === "bucket" ? 30 : 2);
  const fitting = (i: number) => (flags ? Number(number(i) > -0.5) : rows ? i % 2 : positive ? Math.abs(number(i)) : number(i));
  return tensor(
    shape,
    Array.from({ length: size(shape) }, (_, i) => fitting(i)),
  );
}
