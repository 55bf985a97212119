// A tab of a browser, for tests without one.
import { vi } from "vitest";

/** As much of a browser as a store asks for. */
export class Tab {
  entries = [""];
  at = 0;
  listeners = new Map<string, (event: unknown) => void>();
  location = { pathname: "/page", search: "", hash: "" };
  dataset: { link?: string } = {}; // of a page in a frame
  private now = 0;

  constructor(
    hash = "",
    readonly forbidden = false,
  ) {
    this.location.hash = hash;
    const listen = (name: string, listener: (event: unknown) => void) => this.listeners.set(name, listener);
    vi.stubGlobal("location", this.location);
    vi.stubGlobal("addEventListener", listen);
    vi.stubGlobal("document", { addEventListener: listen, documentElement: { dataset: this.dataset } });
    vi.stubGlobal("window", globalThis);
    vi.stubGlobal("performance", { now: () => (this.now += 1000) });
    vi.stubGlobal("history", {
      pushState: (_: unknown, __: string, address: string) => this.write([...this.entries.slice(0, this.at + 1), ""], address),
      replaceState: (_: unknown, __: string, address: string) => this.write([...this.entries], address),
    });
  }

  private write(entries: string[], address: string): void {
    if (this.forbidden) throw new Error("SecurityError");
    this.at = Math.max(entries.length - 1, entries.length === this.entries.length ? this.at : 0);
    this.entries = entries;
    this.entries[this.at] = this.location.hash = address.startsWith("#") ? address : "";
  }

  go(by: number): void {
    this.at += by;
    this.location.hash = this.entries[this.at];
    this.listeners.get("hashchange")!(undefined);
  }

  press(key: string, more: object = {}): void {
    this.listeners.get("keydown")!({ key, ctrlKey: true, preventDefault() {}, target: { matches: () => false }, ...more });
  }
}
