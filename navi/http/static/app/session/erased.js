// What becomes of the words in an open page when the log loses them.

import { Problem } from "../api.js";

const LARGEST = 10_000; // facts a request

/**
 * Have the events that a `content_erased` names, or all before it, as navi has them now; asked for until it answers.
 *
 * @throws {Problem} it is not given.
 */
export async function readErased(log, { seq: until, data: { seqs } }) {
  const named = seqs && new Set(seqs);
  const isMeant = ({ seq }) => seq < until && (!named || named.has(seq));
  log.deltas = log.deltas.filter((delta) => !isMeant(delta));
  await log.loading; // what is on its way may be of before
  const meant = log.facts.filter(isMeant);
  const now = meant.length ? await read(log, meant[0].seq, meant.at(-1).seq) : new Map();
  log.facts = log.facts.map((fact) => (isMeant(fact) && now.get(fact.seq)) || fact);
  log.grown.value++;
}

/** The facts from a seq to another, by their seq. */
async function read(log, first, last) {
  const found = new Map();
  for (let before = last + 1; before > first; ) {
    try {
      const { events, from } = await log.page({ before, limit: Math.min(before - first, LARGEST) });
      for (const event of events) found.set(event.seq, event);
      before = from + 1;
    } catch (error) {
      if (!(error instanceof Problem) || !error.mayPass) throw error;
      await new Promise((again) => setTimeout(again, error.wait));
    }
  }
  return found;
}
