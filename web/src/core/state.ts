// The state of a page, as a schema of fields: from it follow the initial state, the link of the page, the check of a link, and the steps
// of its history.

/** How a value is written as a text. */
export interface Code<T> {
  write(value: T): string;
  read(text: string): T | undefined; // undefined where it is invalid
}

/** A field of a state S. `state` has the fields that stand above it in the schema. */
export interface Field<T, S> {
  initial(state: S): T;
  write(value: T, link: URLSearchParams, name: string, state: S): void;
  read(link: URLSearchParams, name: string, state: S): T | undefined; // undefined where the link has none, or an invalid one
  history: Steps;
}

/** What a change of a field is: a step that undo takes back and to which the browser's Back returns; one for Back only; none. */
export type Steps = "undo" | "back" | "none";

export interface Schema<S> {
  fields: { [K in keyof S]-?: Field<S[K], S> };
  initial(): S;
  /** The state of a link, with or without "#". What is missing or invalid is as in the initial state. */
  read(link: string): S;
  /** What differs from the initial state, as the link of the page, without "#". */
  write(state: S): string;
}

export function schema<S extends object>(fields: Schema<S>["fields"]): Schema<S> {
  const names = Object.keys(fields) as (keyof S & string)[];
  const made = (value: (name: keyof S & string, state: S) => unknown): S => {
    const state = {} as S;
    for (const name of names) state[name] = value(name, state) as S[typeof name];
    return state;
  };
  return {
    fields,
    initial: () => made((name, state) => fields[name].initial(state)),
    read(link) {
      const found = new URLSearchParams(link.replace(/^#/, ""));
      return made((name, state) => fields[name].read(found, name, state) ?? fields[name].initial(state));
    },
    write(state) {
      const link = new URLSearchParams();
      for (const name of names)
        if (!same(state[name], fields[name].initial(state))) fields[name].write(state[name], link, name, state);
      return link.toString();
    },
  };
}

/** Whether two values of a field are the same. */
export const same = (a: unknown, b: unknown): boolean => a === b || JSON.stringify(a) === JSON.stringify(b);

/** How a field is called in the link, where that is not its name, and what a change of it is. */
export interface Options {
  key?: string;
  history?: Steps;
}

type Of<T, S> = T | ((state: S) => T);
const of = <T, S>(value: Of<T, S>, state: S): T => (typeof value === "function" ? (value as (state: S) => T)(state) : value);

/** A field that one text of the link holds. Its code and its initial value may depend on the fields above it. */
export const field = <T, S = unknown>(
  code: Of<Code<T>, S>,
  initial: Of<NoInfer<T>, S>,
  { key, history = "undo" }: Options = {},
): Field<T, S> => ({
  history,
  initial: (state) => of(initial, state),
  write: (value, link, name, state) => link.set(key ?? name, of(code, state).write(value)),
  read(link, name, state) {
    const text = link.get(key ?? name);
    return text === null ? undefined : of(code, state).read(text);
  },
});

/** The same without an initial value. */
export const optional = <T>(code: Code<T>, options: Options = {}): Field<T | undefined, unknown> =>
  field(code as Code<T | undefined>, undefined, options);

/** A field that is in no link. */
export const fixed = <T>(value: T): Field<T, unknown> => ({
  history: "none",
  initial: () => value,
  write() {},
  read: () => undefined,
});

// --- codes -----------------------------------------------------------------------------------------------------------
/** A whole number from low to high. */
export const whole = (low: number, high: number): Code<number> => ({
  write: String,
  read: (text) => (/^-?(0|[1-9]\d{0,11})$/.test(text) ? within(Number(text) + 0, low, high) : undefined),
});

/** Any number from low to high. */
export const real = (low: number, high: number): Code<number> => ({
  write: String,
  read: (text) => (text.trim() ? within(Number(text) + 0, low, high) : undefined),
});

const within = (value: number, low: number, high: number): number | undefined =>
  value >= low && value <= high ? value : undefined;

/** One of some names or numbers. */
export const choice = <T extends string | number>(values: readonly T[]): Code<T> => ({
  write: String,
  read: (text) => values.find((value) => String(value) === text),
});

/** Yes or no, in the words of the link. */
export const flag = (yes = "on", no = "off"): Code<boolean> => ({
  write: (value) => (value ? yes : no),
  read: (text) => ([yes, "true", "1"].includes(text) ? true : [no, "false", "0"].includes(text) ? false : undefined),
});

/** Values with a sign between them; invalid as a whole where one is invalid. */
export const list = <T>(code: Code<T>, between = "."): Code<T[]> => ({
  write: (values) => values.map((value) => code.write(value)).join(between),
  read(text) {
    const found = text ? text.split(between).map((one) => code.read(one)) : [];
    return found.every((one) => one !== undefined) ? (found as T[]) : undefined;
  },
});

/** The same, without those that are invalid. */
export const valid = <T>(code: Code<T>): Code<T[]> => ({
  write: list(code).write,
  read: (text) => text.split(".").flatMap((one) => code.read(one) ?? []),
});

/** Two values with a dot between them. */
export const pair = <T>(code: Code<T>): Code<[T, T]> => only(list(code), ({ length }) => length === 2) as Code<[T, T]>;

/** As JSON, where `fine` returns what is valid of it. */
export const json = <T>(fine: (found: unknown) => T | undefined): Code<T> => ({
  write: (value) => JSON.stringify(value),
  read(text) {
    try {
      return fine(JSON.parse(text));
    } catch {
      return undefined;
    }
  },
});

/** Only the values for which something holds. */
export const only = <T>(code: Code<T>, holds: (value: T) => boolean): Code<T> => ({
  write: (value) => code.write(value),
  read(text) {
    const value = code.read(text);
    return value !== undefined && holds(value) ? value : undefined;
  },
});

export const distinct = (values: readonly unknown[]): boolean => new Set(values).size === values.length;

// --- what every desk has -----------------------------------------------------------------------------------------------
/** How numbers are shown. order: the words' original rows, as they stand. edits: number by cell ("1,0") by the key of a leaf or step;
 * the words' own numbers stand under "words", by original row. */
export interface Shown {
  order: number[];
  head: number;
  digits: number;
  edits: Edits;
}

export type Edits = Record<string, Record<string, number>>;

const LARGEST = 1e6; // larger edits could overflow to infinity

/** An order of the words: each of them once. */
export const order = (words: number, between = ","): Code<number[]> =>
  only(list(whole(0, words - 1), between), (rows) => rows.length === words && distinct(rows));

export const digits = <S>(initial = 2): Field<number, S> => field(whole(0, 8), initial);

export const edits = <S>(): Field<Edits, S> => field(json(numbers), {} as Edits);

function numbers(found: unknown): Edits {
  const result: Edits = Object.create(null);
  if (typeof found !== "object" || found === null) return result;
  for (const [key, cells] of Object.entries(found)) {
    if (typeof cells !== "object" || cells === null) continue;
    const valid = Object.entries(cells).filter(
      ([cell, v]) => /^\d+(,\d+)*$/.test(cell) && typeof v === "number" && Math.abs(v) <= LARGEST,
    );
    if (valid.length) result[key] = Object.fromEntries(valid) as Record<string, number>;
  }
  return result;
}
