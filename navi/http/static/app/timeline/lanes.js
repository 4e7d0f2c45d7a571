// Where the spans of a turn stand in its picture: a lane an actor, in it planning, model calls, tools, and
// what ties a lane to the tool that began it.

const HEADING = 22; // pixels, the lane's name
export const TRACK = 24;
const PLANNING = 12;
const SPACE = 10; // between lanes
export const LIFE = 4; // from the top of a lane to the line that is its subagent's life

/**
 * The lanes of placed spans (`spansOf`): `{lanes: [{actor, span, top, height, bars: [{span, top, height}]}],
 * links: [{span, top, bottom}], height}`. Bars that overlap in time stand below each other; a tool stands
 * where its approval stood. A link runs from a tool down to the lane of the subagent `span` that it began.
 */
export function lanesOf(spans, top) {
  const actors = [null, ...spans.filter(({ kind }) => kind === "subagent").map(({ actor }) => actor)];
  const lanes = [];
  for (const actor of actors) {
    const own = spans.filter((span) => span.actor === actor && span.kind !== "subagent");
    const bars = [];
    let below = top + HEADING;
    const planning = own.filter(({ kind }) => kind === "planning");
    if (planning.length) {
      bars.push(...planning.map((span) => ({ span, top: below, height: PLANNING })));
      below += PLANNING + 2;
    }
    for (const group of [own.filter(({ kind }) => kind === "call").map((span) => [span]), pairs(own)]) {
      const tracks = packed(group);
      for (const [index, track] of tracks.entries()) {
        bars.push(...track.flat().map((span) => ({ span, top: below + index * TRACK, height: TRACK - 4 })));
      }
      below += tracks.length * TRACK;
    }
    const span = spans.find((other) => other.kind === "subagent" && other.actor === actor) ?? null;
    lanes.push({ actor, span, top, height: below - top, bars });
    top = below + SPACE;
  }
  return { lanes, links: linksOf(lanes), height: top };
}

function linksOf(lanes) {
  const ends = new Map(lanes.flatMap(({ bars }) => bars.map((bar) => [bar.span.key, bar.top + bar.height])));
  return lanes.flatMap(({ span, top }) => (span && ends.has(span.parent) ? [{ span, top: ends.get(span.parent), bottom: top + LIFE }] : []));
}

/** Tools, each with the wait for its approval. */
function pairs(spans) {
  const found = new Map();
  for (const span of spans) {
    if (span.kind !== "tool" && span.kind !== "approval") continue;
    found.set(span.callId, [...(found.get(span.callId) ?? []), span]);
  }
  return [...found.values()];
}

/** Groups of spans in as few tracks as hold them without overlap. */
function packed(groups) {
  const tracks = [];
  for (const group of groups.toSorted((a, b) => a[0].from - b[0].from)) {
    const free = tracks.find((track) => track.at(-1).at(-1).until <= group[0].from);
    if (free) free.push(group);
    else tracks.push([group]);
  }
  return tracks;
}
