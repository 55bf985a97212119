// Words: a sentence becomes words, and a word that no model knows becomes numbers: always the same ones, spelled from its letters.
// The twin of the speller in Python; contract/cases/words.json holds what both must give.

const SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/; // as in Python's str.split()

/** The words of a sentence, with letters composed (NFC) so that the same word is always the same bytes. */
export const split = (sentence: string): string[] => sentence.normalize("NFC").split(SPACE).filter(Boolean);

/** `width` numbers from -2.0 to 2.0 in steps of 0.1; number j depends on the seed, the word and j only. */
export const spelled = (word: string, width: number, seed: number): number[] =>
  Array.from({ length: width }, (_, j) => ((mixed(hash(`${seed}/${word}/${j}`)) % 41) - 20) / 10);

/** FNV-1a, 32 bits, over UTF-8 bytes (Fowler, Noll & Vo). */
function hash(text: string): number {
  let h = 2166136261;
  for (const byte of new TextEncoder().encode(text)) h = Math.imul(h ^ byte, 16777619);
  return h >>> 0;
}

/** The finaliser of murmur3 (Appleby): FNV alone leaves texts that differ in their last letter close together. */
function mixed(h: number): number {
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
