// Of the requests to the command on this machine only the latest counts.
import { describe, expect, test, vi } from "vitest";
import { LatestRequest, NO_RESPONSE, type Fetcher } from "../src/core/latest_request";

const answer = (body: unknown, status = 200) => new Response(typeof body === "string" ? body : JSON.stringify(body), { status });

/** Requests that get a response when the test says so, even after an abort. */
function slow() {
  const asked: { address: string; signal: AbortSignal; answer: (response: Response) => void }[] = [];
  const ask: Fetcher = (address, { signal }) => new Promise((answer) => asked.push({ address, signal, answer }));
  return { asked, newest: new LatestRequest(ask) };
}

describe("the latest request", () => {
  test("gets its response, and every earlier one is aborted", async () => {
    const { asked, newest } = slow();
    const found = [1, 2, 3].map((from) => newest.get(`/rerun?offset=${from}`));
    expect(asked.map(({ signal }) => signal.aborted)).toEqual([true, true, false]);
    for (const from of [3, 2, 1]) asked[from - 1].answer(answer(from));
    expect(await Promise.all(found)).toEqual([undefined, undefined, 3]);
  });

  test("drops a response that is aborted while its body is read", async () => {
    const body = vi.fn();
    const newest = new LatestRequest(async () => ({ ok: true, json: () => new Promise(body) }) as unknown as Response);
    const first = newest.get("/rerun?offset=1");
    await Promise.resolve().then(() => undefined);
    newest.drop();
    body.mock.calls[0][0]("late");
    expect(await first).toBeUndefined();
  });

  test("of another kind is not aborted", async () => {
    const [heads, runs] = [slow(), slow()];
    const [head, run] = [heads.newest.get("/head?layer=0&head=0"), runs.newest.get("/rerun?offset=1")];
    heads.asked[0].answer(answer("[1]"));
    runs.asked[0].answer(answer("[2]"));
    expect([await head, await run]).toEqual([[1], [2]]);
  });

  test("fails with the sentence of the command", async () => {
    const says = (response: Response) => new LatestRequest(async () => response).get("/rerun");
    await expect(says(answer("The model could not do that.\n", 500))).rejects.toThrow("The model could not do that.");
    await expect(says(answer("", 503))).rejects.toThrow("The command responded with status 503.");
  });

  test("without a response says what to do; an aborted one says nothing", async () => {
    const gone = new LatestRequest(() => Promise.reject(new TypeError("Failed to fetch")));
    await expect(gone.get("/rerun")).rejects.toThrow(NO_RESPONSE);
    const left = new LatestRequest((_, { signal }) => new Promise((_, refuse) => (signal.onabort = () => refuse(signal.reason))));
    const asked = left.get("/rerun");
    left.drop();
    expect(await asked).toBeUndefined();
  });
});
