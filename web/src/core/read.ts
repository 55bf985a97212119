// What a page's record is written as: base64 of gzipped JSON.
import { bytesOf } from "./tensor";

export async function read<R>(element: HTMLElement): Promise<R> {
  const stream = new Blob([bytesOf(element.textContent!.trim())]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** Replaces the page by the reason why its data could not be read. */
export function unreadable(place: HTMLElement): (error: unknown) => void {
  return (error) => {
    place.textContent = `This page's data could not be read (${error instanceof Error ? error.message : error}). It needs a browser of 2023 or newer.`;
  };
}
