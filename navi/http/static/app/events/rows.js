// Which rows of a long table are within sight, where some of them are open.

export const ROW = 34; // pixels
export const OPEN = 300; // more, of a row that is open

/** Where a row begins; `open` are the indices of the open rows, in order. */
export function topOf(index, open) {
  return index * ROW + OPEN * open.filter((other) => other < index).length;
}

/** The rows `[first, last)` of `count` that are within sight, and a few on each side. */
export function inSight({ count, open, scrollTop, height, more = 8 }) {
  const at = (pixels) => {
    let low = 0;
    let high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (topOf(middle + 1, open) <= pixels) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return [Math.max(0, at(scrollTop) - more), Math.min(count, at(scrollTop + height) + 1 + more)];
}
