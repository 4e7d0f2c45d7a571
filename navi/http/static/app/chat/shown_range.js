// Which part of a conversation is drawn: its end, or a piece around where somebody reads, that moves with
// the reader. However long a session is, a page draws no more than this.

const STEP = 40; // items that are drawn at first, and on either side of one that was looked for
const MORE = 16; // items that come in while somebody scrolls: what is drawn within a frame
const MOST = 160; // items drawn at once, unless they came while somebody was reading

/** The end of the conversation, wherever that is. */
export const END = { first: null, last: null };

const partsOfTurn = new WeakMap();

/** What is drawn of all turns, in order: `{key, turn, item}`; a turn without items is one part. */
export function partsOf(state) {
  return state.turns.flatMap((turn) => {
    let parts = partsOfTurn.get(turn);
    if (!parts) {
      parts = turn.items.length ? turn.items.map((item) => ({ key: item.key, turn, item })) : [{ key: turn.key, turn, item: null }];
      partsOfTurn.set(turn, parts);
    }
    return parts;
  });
}

/** The indices `[from, until)` of a range. */
export function indicesOf(range, parts) {
  const until = range.last === null ? parts.length : indexOf(parts, range.last, parts.length - 1) + 1;
  const from = range.first === null ? until - STEP : indexOf(parts, range.first, until - STEP);
  return [Math.max(0, Math.min(from, until - 1)), until];
}

/** The range with more before it. */
export function earlier(range, parts) {
  const [from, until] = indicesOf(range, parts);
  return rangeOf(parts, from - MORE, Math.min(until, from - MORE + MOST));
}

/** The range with more after it. */
export function later(range, parts) {
  const [from, until] = indicesOf(range, parts);
  return rangeOf(parts, Math.max(from, until + MORE - MOST), until + MORE);
}

/** A range with what stands at an index in its middle. */
export function around(index, parts) {
  return rangeOf(parts, index - STEP, index + STEP);
}

/** A range that begins where it does now, whatever comes below it. */
export function pinned(range, parts) {
  const [from] = indicesOf(range, parts);
  return parts.length ? { ...range, first: parts[from].key } : range;
}

/** The index of what stands at a seq, or last before it; -1 where all of it came later. */
export function indexAt(seq, parts) {
  const exact = parts.findIndex(({ item }) => item && [item.seq, item.repliedSeq, item.resultSeq].includes(seq));
  return exact >= 0 ? exact : parts.findLastIndex(({ turn, item }) => (item?.seq ?? turn.seq) <= seq);
}

function rangeOf(parts, from, until) {
  const first = Math.max(0, from);
  return { first: parts[first].key, last: until < parts.length ? parts[until - 1].key : null };
}

function indexOf(parts, key, otherwise) {
  const index = parts.findLastIndex((part) => part.key === key);
  return index < 0 ? otherwise : index;
}
