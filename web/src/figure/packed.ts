// Pages that stand in the document itself: <script type="application/octet-stream" data-figure="love.html">, base64 of gzipped HTML.

const unpacked = new Map<string, Promise<string>>();
const find = (src: string): Element | null => document.querySelector(`script[data-figure="${CSS.escape(src)}"]`);

export const isPacked = (src: string): boolean => !!find(src);

/** The text of such a page, or nothing where `src` is a file. */
export async function packed(src: string): Promise<string | undefined> {
  if (document.readyState === "loading") await new Promise((done) => addEventListener("DOMContentLoaded", done, { once: true }));
  const found = find(src);
  if (!found) return undefined;
  const text = unpacked.get(src) ?? unpack(found.textContent!);
  unpacked.set(src, text);
  return text;
}

function unpack(text: string): Promise<string> {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
