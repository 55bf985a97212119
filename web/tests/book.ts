// The figures and exercises of the book, as the chapters of docs/learn have them.
import { readdirSync, readFileSync } from "node:fs";

const LEARN = new URL("../../docs/learn/", import.meta.url);
const chapters = readdirSync(LEARN)
  .filter((name) => /^\d\d-.*\.md$/.test(name))
  .sort();

interface Figure {
  id: string;
  src: string;
  state: string;
}

interface Exercise {
  goal: string;
  figure: string; // its id
  src: string; // of the figure
  answer: string; // the state that is revealed
}

/** By id. */
export const figures = new Map<string, Figure>();
export const exercises: Exercise[] = [];

const attributes = (tag: string): Record<string, string> =>
  Object.fromEntries([...tag.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, name, value]) => [name, value.replaceAll("&amp;", "&")]));

for (const chapter of chapters) {
  const text = readFileSync(new URL(chapter, LEARN), "utf8");
  for (const [, tag] of text.matchAll(/<equiscope-figure ([^>]*)>/g)) {
    const { id, src = "", state = "" } = attributes(tag);
    if (figures.has(id)) throw new Error(`two figures of the book are called ${id}`);
    figures.set(id, { id, src, state });
  }
  for (const [, tag, inside] of text.matchAll(/<equiscope-exercise ([^>]*)>(.*?)<\/equiscope-exercise>/gs)) {
    const { figure, goal } = attributes(tag);
    const answer = attributes(/<div data-answer ([^>]*)>/.exec(inside)?.[1] ?? "").state ?? "";
    exercises.push({ goal, figure, src: figures.get(figure)?.src ?? "", answer });
  }
}
