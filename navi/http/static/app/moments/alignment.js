// What two conversations have in common and what they have not: messages aligned by what they say, and
// within two that stand for each other the words that differ.

const MOST_CELLS = 4_000_000; // of a table that is compared; beyond, all between the ends counts as different
const WORDS = /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;

/**
 * The longest common subsequence of two lists, as what becomes of each: `[{kind: "same", a, b} |
 * {kind: "removed", a} | {kind: "added", b}]`, `a` and `b` being indices, in order, removed before added.
 */
function aligned(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const same = (from, count, shift) => Array.from({ length: count }, (_, i) => ({ kind: "same", a: from + i, b: from + i + shift }));
  return [
    ...same(0, start, 0),
    ...middle(a, b, start, a.length - end, b.length - end),
    ...same(a.length - end, end, b.length - a.length),
  ];
}

function middle(a, b, start, aEnd, bEnd) {
  const rows = aEnd - start;
  const columns = bEnd - start;
  const steps = [];
  let i = 0;
  let j = 0;
  if (rows * columns <= MOST_CELLS) {
    // lengths[i][j]: the longest of what follows a[i] and b[j].
    const width = columns + 1;
    const lengths = new Uint32Array((rows + 1) * width);
    for (let x = rows - 1; x >= 0; x--) {
      for (let y = columns - 1; y >= 0; y--) {
        lengths[x * width + y] =
          a[start + x] === b[start + y]
            ? lengths[(x + 1) * width + y + 1] + 1
            : Math.max(lengths[(x + 1) * width + y], lengths[x * width + y + 1]);
      }
    }
    while (i < rows && j < columns) {
      if (a[start + i] === b[start + j]) steps.push({ kind: "same", a: start + i++, b: start + j++ });
      else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) steps.push({ kind: "removed", a: start + i++ });
      else steps.push({ kind: "added", b: start + j++ });
    }
  }
  while (i < rows) steps.push({ kind: "removed", a: start + i++ });
  while (j < columns) steps.push({ kind: "added", b: start + j++ });
  return steps;
}

/**
 * Two lists of messages side by side: `[{kind: "same", messages} | {kind: "changed", a, b} |
 * {kind: "removed", a} | {kind: "added", b}]`. Within a run of differences those of one role, in order,
 * stand for each other.
 */
export function compareMessages(a, b) {
  const found = [];
  let removed = [];
  let added = [];
  const settle = () => {
    for (const message of removed) {
      const index = added.findIndex(({ role }) => role === message.role);
      if (index < 0) found.push({ kind: "removed", a: message });
      else {
        for (const other of added.splice(0, index)) found.push({ kind: "added", b: other });
        found.push({ kind: "changed", a: message, b: added.shift() });
      }
    }
    for (const message of added) found.push({ kind: "added", b: message });
    removed = [];
    added = [];
  };
  for (const step of aligned(a.map(sayingOf), b.map(sayingOf))) {
    if (step.kind === "removed") removed.push(a[step.a]);
    else if (step.kind === "added") added.push(b[step.b]);
    else {
      settle();
      if (found.at(-1)?.kind !== "same") found.push({ kind: "same", messages: [] });
      found.at(-1).messages.push(b[step.b]);
    }
  }
  settle();
  return found;
}

/** The words of two texts: `[{kind: "same" | "removed" | "added", text}]`. */
export function compareWords(a, b) {
  const [before, after] = [a.match(WORDS) ?? [], b.match(WORDS) ?? []];
  const found = [];
  for (const step of aligned(before, after)) {
    const text = step.kind === "added" ? after[step.b] : before[step.a];
    if (found.at(-1)?.kind === step.kind) found.at(-1).text += text;
    else found.push({ kind: step.kind, text });
  }
  return found;
}

/** What a message says, for comparing; not when, nor under which ids. */
function sayingOf(message) {
  const calls = (message.tool_calls ?? []).map(({ name, arguments: given }) => [name, given]);
  const marks = ["is_partial", "is_withdrawn", "is_compression", "is_plan"].filter((mark) => message[mark]);
  return JSON.stringify([message.role, message.content, message.name ?? null, calls, marks]);
}
