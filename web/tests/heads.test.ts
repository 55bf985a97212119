import { describe, expect, test } from "vitest";
import type { Array as ArrayRecord, HeadStatistics, Heads, AttentionLayer, AttentionTensors } from "../src/core/contract";
import { firstChangedLayer, rerunSummary, shuffled } from "../src/pages/heads/rerun";
import { mergeWords, meanWeights, outputLabels, countDiagonal, strongest } from "../src/pages/heads/alignment";
import { rankedPairs, otherRecord, hasCounterpart, shownSide, distanceSummary } from "../src/pages/heads/side_by_side";
import { selectedCell } from "../src/pages/heads/detail";
import { brief, direction, spaced, visible } from "../src/core/labels";
import { nextIndex, tintScale } from "../src/pages/heads/lines";
import { maxPool } from "../src/pages/heads/attention_map";
import { headName, layerGroups } from "../src/pages/heads/mosaic";
import { shiftSummary } from "../src/pages/heads/position_tables";
import { predictionsAt } from "../src/pages/heads/predictions";
import { envelope, decodeSamples } from "../src/pages/heads/sound";
import { patchTint } from "../src/pages/heads/layer_strip";
import { isRollout, own, withRollout } from "../src/pages/heads/rollout";
import { type HeadsState, stateOf } from "../src/pages/heads/state";
import { linkTests } from "./links";
import { percent, thumbnail, formatWeight } from "../src/pages/heads/rounded";
import { sorted } from "../src/pages/heads/statistics";
import { HeadSource } from "../src/pages/heads/head_source";
import { Attention, type Interventions, headTensors, largest, most, movedWeight, NONE } from "../src/pages/heads/weights";

/** Numbers that look drawn by chance and are the same each time. */
const wave = (count: number, seed: number) =>
  Array.from({ length: count }, (_, i) => Math.sin(12.9898 * (i + 1) + 78.233 * seed) * 2);
const array = (shape: number[], data: number[]): ArrayRecord => ({ shape, dtype: "float64", data });
const drawn = (
  heads: number,
  layerGroups: number,
  n: number,
  m: number,
  more: Partial<AttentionTensors> = {},
): AttentionTensors => ({
  scale: 0.5,
  q: array([heads, n, 3], wave(heads * n * 3, 1)),
  k: array([layerGroups, m, 3], wave(layerGroups * m * 3, 2)),
  v: array([layerGroups, m, 2], wave(layerGroups * m * 2, 3)),
  ...more,
});
const changes = (more: Partial<Interventions>): Interventions => ({ ...NONE, ...more });
const softmax = (scores: number[], extra?: number): number[] => {
  const powers = scores.map(Math.exp);
  const total = powers.reduce((sum, p) => sum + p, extra === undefined ? 0 : Math.exp(extra));
  return powers.map((p) => p / total);
};
/** Scores of a head, straight from the definition. */
const scores = ({ q, k, scale }: AttentionTensors, head: number, group: number): number[][] => {
  const at = (x: ArrayRecord, g: number, row: number) =>
    (x.data as number[]).slice((g * x.shape[1] + row) * 3, (g * x.shape[1] + row) * 3 + 3);
  return Array.from({ length: q!.shape[1] }, (_, n) =>
    Array.from({ length: k!.shape[1] }, (_, m) => scale * at(q!, head, n).reduce((sum, x, j) => sum + x * at(k!, group, m)[j], 0)),
  );
};
const close = (found: ArrayLike<number>, wanted: number[]) => {
  expect(found.length).toBe(wanted.length);
  wanted.forEach((value, i) => expect(found[i]).toBeCloseTo(value, 12));
};

describe("weights are the softmax over unmasked keys", () => {
  test("every row, of every head", () => {
    const numbers = drawn(2, 2, 4, 5);
    for (const head of [0, 1]) {
      const attention = new Attention(headTensors(numbers, head, 2));
      scores(numbers, head, head).forEach((row, n) => close(attention.row(n), softmax(row)));
    }
  });

  test("head h reads keys of number h·G // H", () => {
    const numbers = drawn(4, 2, 3, 3);
    [0, 0, 1, 1].forEach((group, head) =>
      close(new Attention(headTensors(numbers, head, 4)).row(2), softmax(scores(numbers, head, group)[2])),
    );
  });

  test("a causal mask leaves the last keys to the last rows", () => {
    const numbers = drawn(1, 1, 2, 4, { causal: true });
    const attention = new Attention(headTensors(numbers, 0, 1));
    const [first, last] = scores(numbers, 0, 0);
    close(attention.row(0), [...softmax(first.slice(0, 3)), 0]);
    close(attention.row(1), softmax(last));
    expect([attention.hidden(0, 3), attention.hidden(0, 2)]).toEqual(["causal mask", ""]);
  });

  test("a bias is added, of this head or of all, of this row or of all", () => {
    const own = drawn(2, 2, 2, 3, { bias: array([2, 2, 3], wave(12, 4)) });
    const all = drawn(2, 2, 2, 3, { bias: array([1, 1, 3], [1, -2, 0.5]) });
    close(new Attention(headTensors(own, 1, 2)).row(1), softmax(scores(own, 1, 1)[1].map((s, m) => s + wave(12, 4)[9 + m])));
    close(new Attention(headTensors(all, 1, 2)).row(1), softmax(scores(all, 1, 1)[1].map((s, m) => s + [1, -2, 0.5][m])));
  });

  test("a masked key has no weight, and says why", () => {
    const seen = { shape: [1, 1, 3], dtype: "bool", data: [1, 0, 1] } as ArrayRecord;
    const attention = new Attention(
      headTensors(drawn(1, 1, 3, 3, { mask: seen, bias: array([1, 1, 3], [0, 0, -Infinity]) }), 0, 1),
    );
    close(attention.row(1), [1, 0, 0]);
    expect([0, 1, 2].map((m) => attention.hidden(1, m))).toEqual(["", "the model's mask", "its score bias is −∞"]);
  });

  test("a fully masked row is 0, not NaN", () => {
    const seen = { shape: [1, 2, 2], dtype: "bool", data: [1, 1, 0, 0] } as ArrayRecord;
    const attention = new Attention(headTensors(drawn(1, 1, 2, 2, { mask: seen }), 0, 1));
    close(attention.row(1), [0, 0]);
    close(attention.column(0), [attention.row(0)[0], 0]);
  });

  test("a cap bounds scores before the bias", () => {
    const numbers = drawn(1, 1, 2, 3, { cap: 0.7, bias: array([1, 1, 3], [3, 0, 0]) });
    const bounded = scores(numbers, 0, 0)[1].map((s, m) => 0.7 * Math.tanh(s / 0.7) + [3, 0, 0][m]);
    close(new Attention(headTensors(numbers, 0, 1)).row(1), softmax(bounded));
  });

  test("a sink takes its share of the weight", () => {
    const numbers = drawn(2, 2, 2, 3, { sink: array([2], [0.3, 1.2]) });
    const weights = new Attention(headTensors(numbers, 1, 2)).row(0);
    close(weights, softmax(scores(numbers, 1, 1)[0], 1.2));
    expect(weights.reduce((sum, w) => sum + w)).toBeLessThan(1);
  });

  test("large scores do not overflow", () => {
    const numbers: AttentionTensors = { scale: 1, q: array([1, 1, 1], [1000]), k: array([1, 2, 1], [1, 0.999]) };
    close(new Attention(headTensors(numbers, 0, 1)).row(0), softmax([0, -1]));
  });

  test("a column holds the weights of all queries", () => {
    for (const more of [{}, { causal: true }, { sink: array([1], [1]) }]) {
      const attention = new Attention(headTensors(drawn(1, 1, 5, 5, more), 0, 1));
      expect(attention.summed).toBe(false);
      close(
        attention.column(1),
        [0, 1, 2, 3, 4].map((n) => attention.row(n)[1]),
      );
      expect(attention.summed).toBe(true);
    }
  });

  test("recorded weights are shown as they are", () => {
    const kept = array([2, 2, 2], [0.25, 0.75, 1, 0, 0.5, 0.5, 0.1, 0.9]);
    const attention = new Attention(headTensors({ scale: 1, weights: kept }, 1, 2));
    expect([...attention.row(1)]).toEqual([0.1, 0.9]);
    expect([...attention.column(1)]).toEqual([0.5, 0.9]);
  });
});

describe("one number", () => {
  const numbers = drawn(1, 1, 3, 3, { cap: 2, bias: array([1, 1, 3], [0.1, 0.2, 0.3]), sink: array([1], [0.5]) });
  const attention = new Attention(headTensors(numbers, 0, 1));
  const score = attention.score(2, 1);

  test("is followed from products to weight", () => {
    expect(score.products!.reduce((sum, p) => sum + p)).toBeCloseTo(score.sum, 12);
    expect(score.scaled).toBeCloseTo(score.sum * 0.5, 12);
    expect(score.capped).toBeCloseTo(2 * Math.tanh(score.scaled / 2), 12);
    expect(score.score).toBeCloseTo(score.capped + 0.2, 12);
    expect(Math.exp(score.exponent - score.top) / score.total).toBeCloseTo(attention.row(2)[1], 12);
    expect(score.weight).toBe(attention.row(2)[1]);
  });

  test("contributes its weight times its values", () => {
    const [v, weights] = [wave(6, 3), attention.row(2)];
    close(
      attention.output(2)!,
      [0, 1].map((j) => weights.reduce((sum, w, m) => sum + w * v[2 * m + j], 0)),
    );
  });
});

describe("changes", () => {
  const numbers = drawn(1, 1, 4, 4, { causal: true, bias: array([1, 1, 4], [1, 2, 3, 4]) });
  const before = headTensors(numbers, 0, 1);
  const row = scores(numbers, 0, 0)[2];

  test("lift the causal mask, drop the bias, raise the temperature", () => {
    close(new Attention(before, changes({ causal: false })).row(2), softmax(row.map((s, m) => s + m + 1)));
    close(new Attention(before, changes({ bias: false })).row(2), [...softmax(row.slice(0, 3)), 0]);
    close(new Attention(before, changes({ temperature: 2 })).row(2), [
      ...softmax(row.slice(0, 3).map((s, m) => (s + m + 1) / 2)),
      0,
    ]);
  });

  test("a masked token leaves its weight to the others, which still sum to 1", () => {
    const attention = new Attention(before, changes({ hidden: [1, 99] }));
    const weights = attention.row(3);
    expect(weights[1]).toBe(0);
    expect(weights.reduce((sum, w) => sum + w)).toBeCloseTo(1, 12);
    expect(attention.hidden(3, 1)).toBe("masked by you");
  });

  test("one number of a query or a key is overwritten, and nothing of the record", () => {
    const attention = new Attention(before, changes({ edits: [{ of: "k", token: 0, feature: 2, value: 9 }, { of: "q", token: 99, feature: 0, value: 1 }] })); // prettier-ignore
    expect(attention.score(2, 0).products![2]).toBeCloseTo(before.q![8] * 9, 12);
    expect(before.k![2]).not.toBe(9);
    expect(attention.changed).toBe(true);
  });

  test("without effect are none", () => {
    expect(new Attention(before, changes({ causal: true, mask: false, hidden: [99] })).changed).toBe(false);
    expect(new Attention(before, changes({ causal: false })).changed).toBe(true);
  });

  test("of recorded weights act on their logarithm", () => {
    const kept = headTensors({ scale: 1, weights: array([1, 1, 3], [0.2, 0.3, 0.5]) }, 0, 1);
    close(new Attention(kept, changes({ hidden: [2] })).row(0), [0.4, 0.6, 0]);
    close(new Attention(kept, changes({ temperature: 0.5 })).row(0), [4 / 38, 9 / 38, 25 / 38]);
  });

  test("are measured by how much of the weight moved", () => {
    expect(movedWeight(Float64Array.of(0.5, 0.5, 0), Float64Array.of(0.5, 0.2, 0.3))).toBeCloseTo(0.3, 12);
  });
});

test("the largest are found in order", () => {
  expect(most([1, 5, 3, 5, 2], 3)).toEqual([1, 3, 2]);
  expect(most([1], 3)).toEqual([0]);
  expect(largest([1, 5, 5])).toBe(1);
});

const initial = (): HeadsState => stateOf([8, 8, 8]).initial();

describe("the state is its link", () => {
  const of = stateOf([4, 4]);
  const number = ["0", "3", "x", "-1", "00"];
  linkTests(
    of,
    { head: ["1.3", "0.0", "00.1", "9.1", "1"], query: number, key: number, by: ["key", "me"], show: ["change"], side: ["other", "difference"], roles: ["first.uniform", "thief"], causal: ["on", "off", "maybe"], mask: ["off"], bias: ["off"], temperature: ["0.5", "1000", "x"], align: ["1", "1.3", "5", ""], word: number, whole: ["on"], rows: ["input"], hide: ["1_0.3", "0_2", "1", "x_1"], q: ["1.0.3.2_0.5", "1.1.1_2"], k: ["0.0.0.0_-1.5e-7", "1.1.1.1_", "1.1.1.1_x", "5.0.0.0_1"], change: ["zero_output_1.3", "mean_output_0.0", "scale_output_1.1__0.5", "patch_output_1", "patch_stream_1_5", "freeze_weights_0.2", "cut_weights_1.1_7.0", "cut_weights_1_7.0", "set_q_1.1_5.7_-0.25", "set_weights_1.1_7.0_1e-7", "move_token__4_9", "move_token_1_4_9", "zero_output_7.1", "burn_output_1.1", "cut_weights_1.1_7", "zero_output_1.1__3", "scale_output_1.1"], second: ["The queen is dead", "a&b=c #?"], after: number, answer: number, rank: ["mean", "most"] }, // prettier-ignore
    ["head=00.1", "head=9.1", "head=0.9", "head=1", "query=x", "query=-1", "by=me", "causal=maybe", "temperature=1000", "temperature=x", "hide=1", "hide=x_1", "q=1.1.1_2", "k=1.1.1.1_", "k=1.1.1.1_x", "roles=thief", "change=zero_output_7.1", "change=zero_output_1.9", "change=burn_output_1.1", "change=cut_weights_1.1_7", "change=zero_output", "change=zero_output_1.1__3", "change=scale_output_1.1", "change=scale_output_1.1__1e9", "change=constructor_output_1.1", "rank=most", "after=x"], // prettier-ignore
  );

  test("and counts from 0", () => expect(of.write({ ...of.initial(), open: [0, 1], row: 3 })).toBe("head=0.1&query=3"));
});

describe("labels", () => {
  test("show what cannot be seen, and leave letters alone", () => {
    expect(visible("a\u200bb", 0)).toBe("a⟨200B⟩b");
    expect(visible("\u202eright", 0)).toBe("⟨202E⟩right");
    expect(visible("\n", 0)).toBe("↵");
    expect(visible(" the ", 0)).toBe("␣the␣");
    expect(visible("\u0301", 0)).toBe("◌\u0301");
    expect(visible("👩\u200d👧", 0)).toBe("👩\u200d👧");
    expect(visible("\u200d", 0)).toBe("⟨200D⟩");
    expect(visible("", 0)).toBe("∅");
    expect(visible(undefined, 6)).toBe("6");
    expect(visible("é", 0)).toBe("é");
  });

  test("are cut between letters", () => expect(brief("😀".repeat(30), 0, 5)).toBe("😀😀😀😀…"));

  test("say in which direction they run", () => {
    expect([["1", "שלום"], ["“", "Hello"], ["عالم", "x"], ["😀"], ["⟨D7 of ש⟩", "⟨A9 of ש⟩"]].map(direction)).toEqual([
      "rtl",
      "ltr",
      "rtl",
      "ltr",
      "rtl",
    ]);
    expect([spaced(["The", " dog"]), spaced(["The", "dog"])]).toEqual([true, false]);
  });
});

const head = (more: Partial<HeadStatistics> = {}): HeadStatistics => ({ role: "mixed", ...more });
const layer = (more: Partial<AttentionLayer> = {}): AttentionLayer => ({ where: "", cross: false, query_sequence: 0, key_sequence: 0, kv_heads: 1, heads: [head()], thumbnail: "", thumbnail_side: 1, ...more }); // prettier-ignore
const record = (more: Partial<Heads> = {}): Heads => ({ title: "", summary: "", target: "", model: "", parameters: 0, dtype: "float32", sequences: [{ name: "source", kind: "words", labels: ["a", "b"] }, { name: "answer", kind: "words", labels: ["c"] }], layers: [], position_tables: [], notes: [], ...more }); // prettier-ignore

test("layers are grouped by queries and keys, and counted from 0 there", () => {
  const found = record({
    layers: [
      layer(),
      layer({ query_sequence: 1, key_sequence: 1 }),
      layer({ query_sequence: 1, cross: true }),
      layer({ query_sequence: 1, key_sequence: 1 }),
    ],
  });
  expect(layerGroups(found)).toEqual([
    { title: "source self-attention", short: "source", layers: [0] },
    { title: "answer self-attention", short: "answer", layers: [1, 3] },
    { title: "answer → source cross-attention", short: "answer → source", layers: [2] },
  ]);
  expect(headName(found, 3, 1)).toBe("answer self-attention L1H1");
  expect(headName(record({ layers: [layer()] }), 0, 0)).toBe("L0H0");
});

test("a table is sorted by any column, and heads without the figure come last", () => {
  const rows = [0.5, null, 0.9, 0.1].map((previous, i) => ({ layer: 0, head: i, found: head({ previous }) }));
  expect(sorted(rows, { by: "previous", down: true }).map((row) => row.head)).toEqual([2, 0, 3, 1]);
  expect(sorted(rows, { by: "previous", down: false }).map((row) => row.head)).toEqual([3, 0, 2, 1]);
  expect(sorted(rows, { by: "place", down: true }).map((row) => row.head)).toEqual([3, 2, 1, 0]);
});

test("a cell is chosen for whoever chose none", () => {
  const now = new Attention(headTensors(drawn(1, 1, 4, 4, { causal: true }), 0, 1));
  const asks = record().sequences[0];
  expect(selectedCell({ now, asks }, initial())).toEqual([3, largest(now.row(3))]);
  expect(selectedCell({ now, asks }, { ...initial(), row: 1, column: 99 })).toEqual([1, 3]);
  expect(selectedCell({ now, asks }, { ...initial(), by: "key", column: 1 })).toEqual([largest(now.column(1)), 1]);
});

test("weights are tinted by the largest of those shown, with their sign", () => {
  const scale = tintScale({ weights: Float64Array.of(0.25, -0.04, 0), signed: true, hidden: [] });
  expect([0, 1, 2].map(scale.of)).toEqual([1, -0.4, 0]);
});

test("arrow keys stay on the line", () => {
  expect(["ArrowLeft", "ArrowRight", "Home", "End", "x"].map((key) => nextIndex(key, 0, 5))).toEqual([0, 1, 0, 4, undefined]);
});

test("of many tokens the largest that share a pixel is shown", () => {
  const pooled = maxPool(1024, 1024);
  const row = new Float64Array(1024);
  row[3] = 0.5;
  row[2] = 0.25;
  row[1023] = -0.75;
  pooled.add(1023, row);
  expect([pooled.cells.length, pooled.most(), pooled.cells[511 * 512 + 1], pooled.cells[511 * 512 + 511]]).toEqual([512 * 512, 0.75, 0.5, -0.75]); // prettier-ignore
});

test("a shift-invariant position table is told from one of absolute positions", () => {
  expect(shiftSummary({ shift_invariance: 0.97 })).toContain(
    "The distance between two positions explains 97 % of the variance of the cosines",
  );
  expect(shiftSummary({ shift_invariance: 0.1, grid: [7, 7] })).toContain(
    "The distance between two patches explains only 10 % of the variance of the cosines",
  );
});

describe("numbers", () => {
  const numbers = drawn(2, 2, 2, 2);
  const answer = (body: unknown, ok = true) =>
    ({ ok, status: ok ? 200 : 404, json: async () => body, text: async () => (ok ? "" : "No such head.\n") }) as Response;

  test("come from the record, without a question", async () => {
    const supply = new HeadSource(record({ layers: [layer({ heads: [head(), head()], tensors: numbers })] }), () =>
      Promise.reject(new Error("asked")),
    );
    expect((await supply.get(0, 1))!.q).toEqual(headTensors(numbers, 1, 2).q);
    expect(supply.ready(0, 1)).toBe(await supply.get(0, 1));
  });

  test("are asked for where the page is served, and the last few are kept", async () => {
    const asked: string[] = [];
    const served = record({ served: true, layers: [layer({ heads: Array.from({ length: 9 }, () => head()) })] });
    const supply = new HeadSource(served, async (address) => (asked.push(address), answer(drawn(1, 1, 2, 2))));
    for (const i of [0, 1, 2, 3, 4, 5, 6]) await supply.get(0, i);
    expect(asked[6]).toBe("/head?layer=0&head=6");
    expect([supply.ready(0, 0), supply.ready(0, 6)?.rows]).toEqual([undefined, 2]);
  });

  test("that come too late are dropped", async () => {
    const waiting: ((answer: Response) => void)[] = [];
    const served = record({ served: true, layers: [layer({ heads: [head(), head()] })] });
    const supply = new HeadSource(served, () => new Promise((resolve) => waiting.push(resolve)));
    const [first, second] = [supply.get(0, 0), supply.get(0, 1)];
    waiting[1](answer(drawn(1, 1, 2, 2)));
    waiting[0](answer(drawn(1, 1, 3, 3)));
    expect([await first, (await second)!.rows]).toEqual([undefined, 2]);
    expect(supply.ready(0, 0)).toBeUndefined();
  });

  test("that cannot be loaded are reported with a sentence", async () => {
    const supply = new HeadSource(record({ served: true, layers: [layer()] }), async () => answer({}, false));
    await expect(supply.get(0, 0)).rejects.toThrow("The tensors of this head could not be loaded. No such head.");
  });
});

describe("a compact file has rounded numbers", () => {
  const letters = (levels: number[]) => String.fromCharCode(...levels.map((l) => (l + 35 >= 92 ? l + 36 : l + 35)));

  test("a letter is a weight on a scale of octaves", () => {
    const levels = [0, 3, 57, 58, 89, 90];
    const head = headTensors(
      { scale: 1, relative_error: 0.1225, encoded_weights: ["", letters(levels)], rows: 2, columns: 3 },
      1,
      2,
    );
    expect([head.rows, head.columns, head.about]).toEqual([2, 3, 0.1225]);
    const rows = [...new Attention(head).row(0), ...new Attention(head).row(1)];
    close(rows, [1, 0.5, 2 ** -19, 2 ** (-58 / 3), 2 ** (-89 / 3), 0]);
  });

  test("where it is causal what is later is not written", () => {
    const head = headTensors({ scale: 1, causal: true, encoded_weights: [letters([3, 0, 3, 6, 6])], rows: 2, columns: 3 }, 0, 1);
    close(new Attention(head).row(0), [0.5, 1, 0]);
    close(new Attention(head).row(1), [0.5, 0.25, 0.25]);
    expect(new Attention(head).hidden(0, 2)).toBe("causal mask");
  });

  test("rows of bytes count in their own units", () => {
    const bytes = (shape: number[], data: number[]): ArrayRecord => ({
      shape,
      dtype: "int8",
      data: btoa(String.fromCharCode(...data.map((x) => x & 255))),
    });
    const numbers: AttentionTensors = {
      scale: 1,
      q: bytes([2, 2, 2], [1, 2, 3, 4, 5, -6, -127, 8]),
      k: bytes([1, 1, 2], [1, -1]),
      q_scale: array([2, 2], [1, 1, 0.5, 2]),
      k_scale: array([1, 1], [3]),
    };
    const { q, k } = headTensors(numbers, 1, 2);
    expect([...q!]).toEqual([2.5, -3, -254, 16]);
    expect([...k!]).toEqual([3, -3]);
  });

  test("thumbnails are made from letters as Python makes them", () => {
    const levels = [3, 0, 6, 9, 12, 3]; // rows of 1, 2 and 3
    const numbers: AttentionTensors = { scale: 1, causal: true, encoded_weights: [letters(levels)], rows: 3, columns: 3 };
    const root = (weight: number) => Math.round(255 * Math.sqrt(weight));
    expect([...thumbnail(numbers, 0, 3)]).toEqual([root(0.5), 0, 0, root(1), root(0.25), 0, root(0.125), root(0.0625), root(0.5)]);
    expect([...thumbnail(numbers, 0, 2)]).toEqual([root(1), root(0.25), root(1), root(0.5)]);
  });

  test("a relative error is rounded up", () => {
    expect([2 ** (1 / 6) - 1, 0.0399, 0.04, 0.00412].map(percent)).toEqual(["13 %", "4 %", "4 %", "0.42 %"]);
    expect([formatWeight(0.1234567, 0), formatWeight(0.1234567, 0.12), formatWeight(0.1234567, 0.01), formatWeight(0, 0.1)]).toEqual(["0.1234567", "≈ 0.123", "≈ 0.1235", "≈ 0"]); // prettier-ignore
  });
});

describe("two models side by side", () => {
  const layer = (where: string) => ({ where, query_sequence: 0, key_sequence: 0, cross: false, heads: [{ role: "uniform" }, { role: "mixed" }] }) as unknown as AttentionLayer; // prettier-ignore
  const beside = { names: ["one", "other"], layers: [layer("b0"), null], total_variation: [[0.2, 0.6], []], target: "b", model: "B", parameters: 1, dtype: "float16" }; // prettier-ignore
  const record = { layers: [layer("a0"), layer("a1")], sequences: [{ name: "text" }], side_by_side: beside } as unknown as Heads;

  test("the largest distance comes first", () =>
    expect(rankedPairs(beside)).toEqual([
      { layer: 0, head: 1, apart: 0.6 },
      { layer: 0, head: 0, apart: 0.2 },
    ]));

  test("a layer without a counterpart shows the first model", () => {
    const state = { ...initial(), side: "difference" as const };
    expect([0, 1].map((i) => hasCounterpart(record, i))).toEqual([true, false]);
    expect([0, 1].map((i) => shownSide({ record, state }, i))).toEqual(["difference", "this"]);
    expect(otherRecord(record)!.layers.map(({ where }) => where)).toEqual(["b0", "a1"]);
    expect(otherRecord({ ...record, side_by_side: null } as unknown as Heads)).toBeUndefined();
  });

  test("the mean distance is given, or that nothing changed", () => {
    expect(distanceSummary(record, (i) => `layer ${i + 1}`)).toBe(
      "On average 40 % of a query's weight lies on other tokens in other.",
    );
    const same = { ...record, side_by_side: { ...beside, total_variation: [[0, 0], []] } } as unknown as Heads;
    expect(distanceSummary(same, String)).toBe("Every weight is the same in other.");
  });
});

describe("the model runs again", () => {
  test("a shuffle has every position once, and moves one at least", () => {
    for (const count of [2, 3, 50])
      for (let i = 0; i < 20; i++) {
        const order = shuffled(count);
        expect([...order].sort((a, b) => a - b)).toEqual(order.map((_, place) => place));
        expect(order.some((place, at) => place !== at)).toBe(true);
      }
  });

  test("the first layer above the rounding floor is named", () => {
    const again = { run: 1, sequence: 0, order: [1, 0], offset: 0, max_differences: [1e-7, 0.25], rounding_floors: [1e-6, 1e-6] };
    const name = (layer: number) => `L${layer}`;
    expect(firstChangedLayer(again)).toBe(1);
    expect(rerunSummary(again, name)).toBe("L1 is the first layer that changes under the shuffle: a weight differs by 0.2500; the rounding floor is 1.0e-6."); // prettier-ignore
    const shifted = { ...again, order: [], offset: 9, max_differences: [0, 5e-8] };
    expect(firstChangedLayer(shifted)).toBeUndefined();
    expect(rerunSummary(shifted, name)).toBe("Every layer is invariant to the shift: no weight differs by more than 5.0e-8, which is within rounding."); // prettier-ignore
  });
});

test("rollouts stand after the layers, and are none of them", () => {
  const [one, all] = ["a0", "attention rollout"].map((where) => ({ where, query_sequence: 0, key_sequence: 0, heads: [{}, {}] }) as unknown as AttentionLayer); // prettier-ignore
  const record = withRollout({ layers: [one], rollout: [all], sequences: [{ name: "text" }] } as unknown as Heads);
  expect(record.layers.map((_, i) => isRollout(record, i))).toEqual([false, true]);
  expect(own(record)).toEqual([one]);
  expect(layerGroups(record).map(({ title }) => title)).toEqual(["text self-attention", "text: rollout, mean and maximum"]);
  expect([headName(record, 0, 1), headName(record, 1, 0)]).toEqual(["L0H1", "attention rollout, mean over heads"]); // prettier-ignore
});

describe("words of one line and those of another", () => {
  const links = { weights: Float64Array.of(0.5, 0.3, 0.2, 0.1, 0.2, 0.7), targets: ["a", "b"], sources: ["x", "y", "z"] };

  test("each target is linked to the source with the largest weight", () => expect(strongest(links)).toEqual([0, 2]));

  test("weights on subwords are added, those of subwords averaged", () => {
    const whole = mergeWords(links, [4, 4], [0, 1, 1]);
    expect([whole.targets, whole.sources]).toEqual([["ab"], ["x", "yz"]]);
    close(whole.weights, [0.3, 0.7]);
  });

  test("words without pieces stay what they are", () => close(mergeWords(links, [0, 1], [0, 1, 2]).weights, [...links.weights]));

  test("the diagonal leads from first to first to last to last", () => {
    expect(countDiagonal([0, 1, 2], 3)).toEqual({ met: 3, chance: 7 / 3 });
    expect(countDiagonal([2, 1, 0], 3).met).toBe(1);
    expect(countDiagonal([0, 4], 5)).toEqual({ met: 2, chance: 4 / 5 });
    expect(countDiagonal([0], 1)).toEqual({ met: 1, chance: 1 });
  });

  test("an output row has the label of the next token", () => {
    const one = array([3, 1], [0, 1, 2]);
    const predictions = {
      kind: "next" as const,
      names: ["a", "b", "end"],
      indices: one,
      probabilities: array([3, 1], [1, 1, 1]),
      sequence: 0,
    };
    expect(outputLabels(["<s>", "a", "b"], 0, predictions)).toEqual(["a", "b", "end"]);
    expect(outputLabels(["<s>", "a", "b"], 1, predictions)).toEqual(["a", "b", "…"]);
    expect(outputLabels(["<s>"], 0, undefined)).toEqual(["…"]);
  });

  test("means are over a layer, or over all", () => {
    const across = { query_sequence: 1, key_sequence: 0, layers: [3, 5], weights: array([2, 1, 2], [0.2, 0.8, 0.6, 0.4]) };
    close(meanWeights(across, 5), [0.6, 0.4]);
    close(meanWeights(across, undefined), [0.4, 0.6]);
  });
});

describe("what is beside the weights", () => {
  test("predictions at a token, the most probable first", () => {
    const predictions = {
      kind: "next" as const,
      names: ["cat", "dog"],
      indices: array([2, 2], [1, 0, 0, 1]),
      probabilities: array([2, 2], [0.75, 0.25, 0.5, 0.5]),
      first_row: 4,
    };
    expect(predictionsAt(predictions, 4)).toEqual([["dog", 0.75], ["cat", 0.25]]); // prettier-ignore
    expect(predictionsAt(predictions, 5)[0]).toEqual(["cat", 0.5]);
    expect([predictionsAt(predictions, 3), predictionsAt(predictions, 6)]).toEqual([[], []]);
  });

  test("classes are predicted for the whole input", () =>
    expect(predictionsAt({ kind: "class", names: ["cat"], indices: array([1, 1], [0]), probabilities: array([1, 1], [1]) }, 7)).toEqual([["cat", 1]])); // prettier-ignore

  test("samples of 16 bits are numbers from -1 to 1", () =>
    expect([...decodeSamples({ rate: 8000, samples: btoa("\x00\x00\xff\x7f\x01\x80") })]).toEqual([0, 1, -1]));

  test("the envelope is the lowest and highest of each interval", () => {
    const wave = Float32Array.of(0.5, -0.5, 1, 0, -1, 0);
    expect(envelope(wave, 0, 6, 3)).toEqual([[-0.5, 0.5], [0, 1], [-1, 0]]); // prettier-ignore
    expect(envelope(wave, 0, 6, 12)).toHaveLength(12);
    expect(envelope(wave, 6, 12, 1)).toEqual([[0, 0]]);
  });

  test("patches are lit relative to the strongest of them, without prefix tokens", () => {
    const { share, strengths } = patchTint([0.6, 0.1, 0.3], 1);
    expect(share).toBeCloseTo(0.4);
    expect(strengths[1]).toBe(1);
    expect(strengths[0]).toBeCloseTo(Math.sqrt(1 / 3));
    expect(patchTint([1, 0, 0], 1).strengths).toEqual([0, 0]);
  });
});
