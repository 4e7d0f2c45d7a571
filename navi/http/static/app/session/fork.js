// Going on in a session of its own from a moment of another one.

import { ask, get, pathOf, post, request } from "../api.js";
import { go } from "../router.js";
import { Outbox, inNew } from "./outbox.js";

const SENT_WITHIN = 300; // seconds for a file

/**
 * Fork a session at a seq and go there; a message is the first that is said in it.
 *
 * @throws {Problem} it was refused; there is no fork then.
 */
export async function fork(session, at, message) {
  const { id } = await post(pathOf(session.id, "fork"), { at });
  if (message) {
    await inNew(id, async () => Outbox.send(id, { ...message, files: await bring(message.files ?? [], session.id, id) }));
  }
  go({ sessionId: id });
}

/** Have files of a session in a fork of it, which has none that came later; gives what they are called there. */
async function bring(names, from, to) {
  if (!names.length) return names;
  const there = new Set((await get(pathOf(to, "files"))).files.map(({ name }) => name));
  const brought = [];
  for (const name of names) brought.push(there.has(name) ? name : await copy(name, from, to));
  return brought;
}

async function copy(name, from, to) {
  const seconds = SENT_WITHIN;
  const form = new FormData();
  form.append("file", await (await request("GET", pathOf(from, "files", name), { seconds })).blob(), name);
  const { files } = await ask("POST", pathOf(to, "files"), { form, seconds });
  return files[0].name;
}
