// The model's answers to changes: requested from the command on this machine, or stored in a file. The page computes none of them.
import type { Heads, InterventionEffect, RankedHeads } from "../../core/contract";
import { same } from "../../core/state";
import { type Fetcher, LatestRequest } from "../../core/latest_request";
import { type Change, changeCode } from "./model_change";
import { own } from "./rollout";
import type { HeadsState } from "./state";

export type RankedBy = RankedHeads["by"];

/** What an effect answers. */
export interface Question {
  changes: string[];
  after: number;
  other: string;
}

export class ModelAnswers {
  effect?: InterventionEffect; // of the page's changes; undefined while there is none
  trouble = "";
  busy = false;
  ranked: RankedHeads[] = [];
  ranking = false;
  rankTrouble = "";
  private readonly effects: InterventionEffect[];
  private readonly rankings: RankedHeads[];
  private readonly newest: LatestRequest;
  private readonly ranks: LatestRequest;
  private asked = "";

  constructor(
    readonly record: Heads,
    private readonly draw: () => void,
    ask?: Fetcher,
  ) {
    this.effects = [...(record.interventions?.effects ?? [])];
    this.rankings = [...(record.interventions?.rankings ?? [])];
    this.newest = new LatestRequest(ask);
    this.ranks = new LatestRequest(ask);
  }

  get stored(): InterventionEffect[] {
    return this.effects;
  }

  /** The last token that the answer can follow. */
  get last(): number {
    const found = this.record.interventions!;
    return found.answer === "next" ? this.record.sequences[found.sequence].labels.length - 1 : 0;
  }

  question(state: Pick<HeadsState, "changes" | "after" | "second">): Question {
    const code = changeCode(this.record.layers.map(({ heads }) => heads.length));
    return { changes: state.changes.map(code.write), after: Math.min(state.after ?? this.last, this.last), other: state.second };
  }

  /** Bring `effect` up to the state. */
  async follow(state: Pick<HeadsState, "changes" | "after" | "second">): Promise<void> {
    const question = this.question(state);
    const key = JSON.stringify(question);
    if (key === this.asked) return;
    this.asked = key;
    this.newest.drop();
    this.trouble = "";
    this.busy = false;
    this.effect = this.effects.find((one) => same({ changes: one.changes, after: one.after, other: one.other }, question));
    const nothing = !question.changes.length && !question.other;
    if (this.effect || nothing) return this.draw();
    if (!this.record.served) {
      this.trouble =
        "This answer is not in the file, and the file does not contain the model. Run the same command without --export.";
      return this.draw();
    }
    this.busy = true;
    this.draw();
    const fields = new URLSearchParams({
      changes: question.changes.join(","),
      after: String(question.after),
      second: question.other,
    });
    try {
      const found = await this.newest.get<InterventionEffect>(`/effect?${fields}`);
      if (!found || key !== this.asked) return;
      this.effects.push(found);
      this.effect = found;
    } catch (error) {
      if (key !== this.asked) return;
      this.trouble = (error as Error).message;
    }
    this.busy = false;
    this.draw();
  }

  /** The layers that were ranked, of those asked for. */
  known(by: RankedBy, answer: number, { after, other }: Question): RankedHeads[] {
    return this.rankings.filter((one) => same([one.by, one.answer, one.after, one.other], [by, answer, after, other]));
  }

  /** Each head changed alone, a layer at a time. */
  async rank(by: RankedBy, chosen: number | undefined, question: Question): Promise<void> {
    this.ranks.drop();
    [this.rankTrouble, this.ranked, this.ranking] = ["", [], Boolean(this.record.served)];
    this.draw();
    const answer = chosen ?? (await this.best(question));
    if (answer === undefined) return;
    this.ranked = this.known(by, answer, question);
    const missing = own(this.record).map((_, layer) => layer).filter((layer) => !this.ranked.some((one) => one.layer === layer)); // prettier-ignore
    this.ranking = Boolean(missing.length && this.record.served);
    this.draw();
    for (const layer of this.ranking ? missing : []) {
      const fields = new URLSearchParams({ by, layer: String(layer), answer: String(Math.max(answer, 0)), after: String(question.after), second: question.other }); // prettier-ignore
      try {
        const found = await this.ranks.get<RankedHeads>(`/rank?${fields}`);
        if (!found) return;
        this.rankings.push(found);
        this.ranked = [...this.ranked, found];
      } catch (error) {
        this.rankTrouble = (error as Error).message;
        break;
      }
      this.draw();
    }
    this.ranking = false;
    this.draw();
  }

  /** The most probable answer of the unchanged model, -1 for a cosine; undefined where it did not answer. */
  private async best({ after, other }: Question): Promise<number | undefined> {
    if (this.record.interventions!.answer === "vector") return -1;
    const known = this.effects.find((one) => one.after === after);
    if (known || !this.record.served) return known?.rows[0].id;
    try {
      const found = await this.ranks.get<InterventionEffect>(`/effect?${new URLSearchParams({ changes: "", after: String(after), second: other })}`); // prettier-ignore
      if (found) this.effects.push(found);
      return found?.rows[0].id;
    } catch (error) {
      [this.rankTrouble, this.ranking] = [(error as Error).message, false];
      this.draw();
    }
  }

  /** Stop a ranking. The layers that were ranked stay. */
  cancel(): void {
    this.ranks.drop();
    this.ranking = false;
    this.draw();
  }
}

/** The changes without those that a new one replaces: of the same action and numbers but another value, or the same ones. */
export const withChange = (changes: Change[], change: Change): Change[] => {
  const site = ({ value: _, ...rest }: Change) => rest;
  return [...changes.filter((one) => !same(site(one), site(change))), change];
};
