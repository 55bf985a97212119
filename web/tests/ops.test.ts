import { describe, expect, test } from "vitest";
import { OPERATIONS, type Params } from "../src/ops";
import { erf } from "../src/ops/erf";
import { indexAt, type Nested, of, size, type Tensor, tensor } from "../src/tensor";
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
    ["a quarter turn, side by side", "rotate", [[[1, 0, 0, 1]], [[Math.PI / 2, 0]]], { layout: "interleaved" }, [[0, 1, 0, 1]]],
    ["a quarter turn, in halves, the rest unturned", "rotate", [[[1, 0, 7]], [[Math.PI / 2]]], { layout: "half" }, [[0, 1, 7]]],
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
  ["scale", [[2, 3]], { by: -1 }],
  ["scale", [[2, 3]], { by: 1 / Math.sqrt(8), root: 8 }],
  ["scale", [[3]], { by: 0.3 }],
  ["activation", [[9]], { kind: "relu" }],
  ["activation", [[9]], { kind: "gelu" }],
  ["activation", [[9]], { kind: "silu" }],
  ["activation", [[9]], { kind: "tanh" }],
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
    "not_after",
    [
      [1, 3],
      [3, 1],
    ],
    {},
  ],
  ["both", [[2, 3], [3]], {}],
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
];

test("the laws run over every operation", () => expect(new Set(LAWS.map(([op]) => op))).toEqual(new Set(Object.keys(OPERATIONS))));

test.each(LAWS)("%s of %j %j explains every cell truly, with cells that exist", (name, shapes, params) => {
  const [op, inputs] = [OPERATIONS[name], shapes.map((shape, i) => given(name, shape, i))];
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
  const [op, inputs] = [OPERATIONS[name], shapes.map((shape, i) => given(name, shape, i))];
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

/** Numbers without a pattern; flags and row numbers where the operation wants them. */
function given(op: string, shape: number[], input: number): Tensor {
  const flags = op === "both" || (input === 1 && ["mask", "mean"].includes(op));
  const rows = op === "gather" && input === 1;
  const number = (i: number) => Math.sin(12.9898 * (i + 1) + 78.233 * input) * 2;
  return tensor(
    shape,
    Array.from({ length: size(shape) }, (_, i) => (flags ? Number(number(i) > -0.5) : rows ? i % 2 : number(i))),
  );
}
