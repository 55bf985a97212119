// The page of a run: its state, its curves, samples during training, its scores, its provenance.
import type { RunReport, RunUpdate, Run } from "../../core/contract";
import { button, h } from "../../core/dom";
import { copied, download } from "../../core/save";
import { Store } from "../../core/store";
import { navigation } from "../../widgets/navigation";
import { shape } from "../../widgets/verdict";
import { recipe, sources } from "../../core/tables";
import { exampleList } from "./examples";
import { attention } from "./attention";
import { clock, digits, spoken } from "../../core/format";
import { curves } from "./curves";
import { below, History } from "./history";
import { listen } from "./live";
import { type RunState, state } from "./state";
import { points, scores } from "./tables";
import "./run.css";

const SIGNS = { finished: "holds", stopped: "undecided", failed: "broken" } as const;
const SILENT = 20; // seconds without a step, after which the page says so

/** The interface of the page for scripts. */
export interface RunPage extends Store<RunState> {
  run: Run;
  history: History;
  every: number; // the page has one of so many points
  cursor: number | undefined; // index of the point under the pointer
  point(index: number | undefined): void;
}

export function mount(course: RunReport, root: HTMLElement): RunPage {
  const history = new History(course.run);
  const page: RunPage = Object.assign(new Store(state), {
    run: course.run,
    history,
    every: course.every ?? 1,
    cursor: undefined as number | undefined,
    point(index: number | undefined) {
      if (index === page.cursor) return;
      page.cursor = index;
      soon();
    },
  });
  let progress: Pick<RunUpdate, "summary" | "seconds_left" | "silent"> & { lost?: boolean } = {
    summary: course.summary,
    seconds_left: course.seconds_left,
  };

  const drawn = curves(page);
  const top = h("div.heading");
  const samples = h("section.part.samples-part", { "data-part": "samples" });
  const numbers = h("div");
  const table = h("div");
  const unfold = h<HTMLDetailsElement>(
    "details.part",
    { "data-part": "points" },
    { ontoggle: () => fillPoints() },
    h("summary", "The curve as a table"),
    table,
  );
  const fillPoints = () => unfold.open && table.replaceChildren(points(page));
  document.body.classList.add("run");
  root.replaceChildren(
    h("header", navigation("run"), titled(course, page), top),
    h("main", { id: "story" }, drawn.element, samples, numbers, unfold, provenance(page)),
    h("footer", { "data-part": "footer" }, course.live ? "equiscope: this page loads the numbers of the training on this machine, and nothing from anywhere else." : "equiscope: every number on this page is in the record inside it. It works offline and sends nothing anywhere."), // prettier-ignore
  );
  const drawSamples = samplesPanel(page, samples);

  let scheduled = false;
  /** Show in the next frame what is pointed at. */
  const soon = () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      drawn.point();
    });
  };
  const draw = () => {
    top.replaceChildren(...heading(page, course, progress));
    drawn.draw();
    drawSamples();
    numbers.replaceChildren(...[scores(page)].filter((part) => part !== undefined));
    fillPoints();
  };
  page.onChange(draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
  if (course.live)
    listen(course.series ?? "", () => history.count, {
      hear(news) {
        history.add(news.entries ?? []);
        progress = { ...news, lost: false };
        page.run = { ...page.run, state: news.state, reason: news.reason, seconds: news.seconds, result: news.result };
        if (!news.more) draw();
      },
      lost() {
        progress = { ...progress, lost: true, seconds_left: undefined };
        top.replaceChildren(...heading(page, course, progress));
      },
    });
  return page;
}

function titled(course: RunReport, page: RunPage): HTMLElement {
  const name = `${course.title.replace(/[^\w.-]+/g, "-").replace(/^-+|-+$/g, "") || "run"}.json`;
  const text = () => {
    const { points, scores, samples } = page.history;
    return JSON.stringify({ ...page.run, points, scores, samples }, null, 1);
  };
  const status = h("span.quiet", { role: "status" });
  const copy = async () => {
    status.textContent = (await copied(text())) ? "Copied." : "This browser does not let a file copy: download it instead.";
  };
  return h(
    "div.top",
    h("h1", { "data-part": "title" }, course.title),
    h(
      "div.buttons",
      { "data-part": "tools" },
      status,
      button("Copy as JSON", "Copy the whole record", copy),
      button("Download record", `Save the whole record as ${name}`, () => download(new Blob([text()], { type: "application/json" }), name)), // prettier-ignore
    ),
  );
}

type Status = Pick<RunUpdate, "summary" | "seconds_left" | "silent"> & { lost?: boolean };

function heading(page: RunPage, course: RunReport, progress: Status): HTMLElement[] {
  const { run, history } = page;
  const state = run.state ?? "running";
  const running = state === "running";
  const live = Boolean(course.live) && !progress.lost;
  const last = history.points.at(-1);
  const step = last?.step ?? 0;
  const parts = [
    h(
      "p.summary",
      { "data-part": "summary", "data-tone": running ? "running" : state === "finished" ? "holds" : state === "failed" ? "fails" : "undecided", role: "status" }, // prettier-ignore
      state === "running" ? h("i.pulse", { "data-live": String(live) }) : shape(SIGNS[state]),
      h("span", progress.summary),
    ),
  ];
  if (running)
    parts.push(
      h("div.progress", { role: "progressbar", "aria-label": "steps", "aria-valuemin": 0, "aria-valuemax": run.steps, "aria-valuenow": step }, h("i", { style: `width:${(100 * step) / run.steps}%` })), // prettier-ignore
    );
  const notice = heard(course, progress, running);
  if (notice) parts.push(h("p.notice", { "data-part": "notes" }, notice));
  parts.push(tiles(page, progress, running && live));
  return parts;
}

function heard(course: RunReport, progress: Status, running: boolean): string | undefined {
  if (progress.lost)
    return running
      ? "No response: the training or the page's server has ended. The data received so far stays here. Run the same command to resume; this page then continues."
      : undefined;
  if (course.live && running && (progress.silent ?? 0) > SILENT)
    return `No new step for ${spoken(progress.silent ?? 0)}: the training may be evaluating or saving, or its process has ended.`;
  if (!course.live && running) return "The run was not finished when this page was made. The page does not update.";
  return undefined;
}

function tiles({ run, history }: RunPage, progress: Status, live: boolean): HTMLElement {
  const last = history.points.at(-1);
  const best = [...history.scores].reverse().find(({ best }) => best);
  const first = best && Object.entries(best.values)[0];
  const facts: [string, string, string?][] = [];
  if (first) facts.push([`best ${best.part} ${first[0]}`, digits(first[1]), `after step ${best.step.toLocaleString("en")}`]);
  facts.push(["steps", last ? last.step.toLocaleString("en") : "0", `of ${run.steps.toLocaleString("en")}`]);
  facts.push(["training time", clock(last?.seconds ?? run.seconds ?? 0), live && progress.seconds_left != null ? `about ${spoken(progress.seconds_left)} left` : "without evaluation"]); // prettier-ignore
  facts.push(["parameters", (run.parameters ?? 0).toLocaleString("en")]);
  if (last) facts.push(["tokens per second", Math.round(median(history.points.slice(-50).map(({ tokens }) => tokens))).toLocaleString("en"), last.mfu == null ? undefined : `MFU ${(100 * last.mfu).toFixed(0)} %`]); // prettier-ignore
  return h("dl.tiles", { "data-part": "facts" }, facts.map(([name, value, beside]) => h("div", h("dt", name), h("dd", value, beside && h("span", beside))))); // prettier-ignore
}

const median = (numbers: number[]): number => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];

/** Samples and attention after a step that a slider chooses. Returns the function that redraws them. */
function samplesPanel(page: RunPage, place: HTMLElement): () => void {
  const output = h("output");
  const slider = h<HTMLInputElement>("input", { type: "range", min: 0, step: 1, "aria-label": "after this step" });
  const play = button("Play", "Play through all steps", () => (playing ? stop() : start()));
  const shown = h("div.shown");
  let playing: ReturnType<typeof setInterval> | undefined;
  const steps = () => page.history.sampledSteps();
  const choose = (index: number) => {
    const all = steps();
    page.set({ at: index >= all.length - 1 ? undefined : all[index] });
  };
  const stop = () => {
    clearInterval(playing);
    playing = undefined;
    play.textContent = "Play";
  };
  const start = () => {
    play.textContent = "Stop";
    choose(Number(slider.value) >= steps().length - 1 ? 0 : Number(slider.value) + 1);
    playing = setInterval(() => (Number(slider.value) >= steps().length - 1 ? stop() : choose(Number(slider.value) + 1)), 700);
  };
  slider.addEventListener("input", () => {
    stop();
    choose(Number(slider.value));
  });
  place.append(
    h(
      "div.sticky",
      h("h2", "Samples during training"),
      h("div.sliding", play, h("label.slider", h("span", "after step"), slider, output)),
    ),
    shown,
  );
  let before = "";
  return () => {
    const all = steps();
    place.hidden = !all.length;
    if (!all.length) return;
    const { at } = page.state;
    const index = at === undefined ? all.length - 1 : Math.max(0, below(all, at));
    slider.max = String(all.length - 1);
    slider.value = String(index);
    output.textContent = all[index].toLocaleString("en");
    slider.setAttribute("aria-valuetext", `step ${all[index]}`);
    play.disabled = all.length < 2;
    const now = [
      all[index],
      page.history.samples.length,
      page.state.head,
      matchMedia("(prefers-color-scheme: dark)").matches,
    ].join();
    if (now === before) return; // unchanged: the hovered cell stays
    before = now;
    const looked = attention(page, all[index]);
    const focused = (document.activeElement as HTMLElement | null)?.dataset.head;
    shown.replaceChildren(exampleList(page.history, all[index]), ...(looked.length ? [h("h3", "Attention of the first example"), ...looked] : [])); // prettier-ignore
    if (focused) shown.querySelector<HTMLElement>(`[data-head="${focused}"]`)?.focus({ preventScroll: true });
  };
}

/** Recipe, data, machine and versions. */
function provenance(page: RunPage): HTMLElement {
  const { run } = page;
  const list = (found: Record<string, unknown>): [string, string][] =>
    Object.entries(found).map(([name, value]) => [name, String(value)]);
  const facts: [string, string][] = [
    ["task", run.task],
    ["seed", String(run.seed)],
    ["processes", String(run.processes ?? 1)],
    ["multiply-adds per step", (run.multiply_adds ?? 0).toPrecision(3)],
    ...list(run.machine),
    ...list(run.versions),
  ];
  return h(
    "section.part.provenance",
    { "data-part": "provenance" },
    h("h2", "Provenance"),
    h("h3", "Full recipe"),
    recipe(run.recipe),
    h("h3", "Data"),
    sources(run.data),
    h("h3", "Machine and versions"),
    h("dl.facts", facts.map(([name, text]) => h("div", h("dt", name), h("dd", text)))), // prettier-ignore
  );
}
