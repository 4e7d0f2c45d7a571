// Folds recorded events as the page does: `node page_fold.mjs FOLD < sessions`, a JSON list of lists of
// envelopes; prints a JSON list of what each comes to.
import { readFileSync } from "node:fs";

const APP = new URL("../../navi/http/static/app/folds/", import.meta.url);

const FOLDS = {
  async context() {
    const { buffers, visibleRows } = await import(new URL("context.js", APP));
    const shown = (rows) => rows.map(({ seq, role, content }) => ({ seq, role, content }));
    return [buffers, (state) => ({ messages: shown(state.messages), context: shown(visibleRows(state)), tokens: state.tokenCount })];
  },
};

const [fold, look] = await FOLDS[process.argv[2]]();
const sessions = JSON.parse(readFileSync(0, "utf8"));
const states = sessions.map((events) => look(events.reduce(fold.apply, fold.initial())));
process.stdout.write(JSON.stringify(states));
