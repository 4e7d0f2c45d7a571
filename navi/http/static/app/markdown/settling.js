// Text that is still being written: blocks that can change no more are kept, and only the rest is read again.

import { lexBlocks } from "./lex.js";

const OPEN = 2; // blocks at the end that what comes may still change

/** Nothing read yet. */
export const NOTHING = { settled: [], blocks: [], links: null, source: "", length: 0 };

/**
 * The blocks of a text, given what was read of its beginning: `{blocks, links}`, a block `{at, token,
 * isSettled}`; `at` is where it stands in the text.
 *
 * While the text is open, blocks that are settled stay the same objects. Once it is whole it is read as
 * one: an address that is named at its end is then known from its beginning.
 */
export function read(before, text, isOpen) {
  if (!isOpen) {
    const { tokens, links } = lexBlocks(text);
    return { ...NOTHING, blocks: placed(tokens, 0, true), links };
  }
  const goesOn = text.length >= before.length && text.startsWith(before.source);
  const from = goesOn ? before : NOTHING;
  // A line of `-` that has just begun would make a heading of the line above it, until its item comes.
  const rest = text.slice(from.length).replace(/\n {0,3}(?:-+|=+) *$/, "\n");
  const { tokens, links } = lexBlocks(rest, from.links);
  const fresh = placed(tokens, from.length, false);
  const kept = Math.max(0, fresh.length - OPEN);
  const done = fresh.slice(0, kept).map((block) => ({ ...block, isSettled: true }));
  const settled = done.length ? [...from.settled, ...done] : from.settled;
  const length = kept ? fresh[kept].at : from.length;
  return {
    settled,
    blocks: [...settled, ...fresh.slice(kept)],
    links,
    source: length === from.length ? from.source : text.slice(0, length),
    length,
  };
}

function placed(tokens, start, isSettled) {
  let at = start;
  const blocks = [];
  for (const token of tokens) {
    if (token.type !== "space" && token.type !== "def") blocks.push({ at, token, isSettled });
    at += token.raw.length;
  }
  return blocks;
}
