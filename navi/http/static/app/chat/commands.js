// What one can do by typing: `/` and a word.

import { complain } from "../announce.js";
import { patch, pathOf } from "../api.js";
import { go } from "../router.js";
import { doing } from "../session/open_session.js";
import { profiles } from "../session/profiles.js";
import { readSessions } from "../session/session_list.js";
import { t } from "../strings.js";

// `needs`: what there must be. `takes`: what has to be said with it.
const COMMANDS = [
  { name: "stop", needs: "turn", run: ({ session }) => session.stop() },
  { name: "steer", needs: "turn", takes: "text", run: ({ say, argument }) => say("steer", argument) },
  // Not waited for: a summary may take minutes, in which one writes on.
  { name: "compress", needs: "session", run: ({ session }) => void session.compress() },
  { name: "fork", needs: "session", run: ({ session }) => session.fork(session.moment.value ?? session.log.head.value) },
  { name: "rename", needs: "session", takes: "name", run: ({ session, argument }) => rename(session, argument) },
  { name: "profile", takes: "profile", run: ({ chooseProfile, argument }) => chooseProfile(argument) },
  { name: "new", run: () => go({}) },
  { name: "export", needs: "session", run: async ({ session }) => (await import("./export_markdown.js")).saveAsMarkdown(session) },
];

/** The commands that can be given now. */
export function commandsFor({ session, isRunning }) {
  return COMMANDS.filter(({ needs }) => !needs || (session && (needs === "session" || isRunning)));
}

/** The command that a text is, `{command, argument}`; null if it is none, as with words that no command takes. */
export function commandIn(text) {
  const found = /^\/([a-z]+)(?:\s+([\s\S]*))?$/.exec(text.trim());
  const command = found && COMMANDS.find(({ name, takes }) => name === found[1] && (takes || !found[2]));
  return command ? { command, argument: found[2]?.trim() ?? "" } : null;
}

/** Do what a text commands. Gives whether it was done; what keeps it from being done is said. */
export async function obey({ command, argument }, context) {
  if (!commandsFor(context).includes(command)) complain(t("command-not-now", { name: `/${command.name}` }));
  else if (command.takes && !argument) complain(t("command-needs", { name: `/${command.name}`, what: t(`command-takes-${command.takes}`) }));
  else return (await command.run({ ...context, argument })) !== false;
  return false;
}

/** The profiles that a word may mean. */
export function profilesLike(word) {
  const wanted = word.toLowerCase();
  return [...profiles.value.values()].filter(({ id, name }) => [id, name].some((other) => other.toLowerCase().startsWith(wanted)));
}

function rename(session, name) {
  return doing(async () => {
    session.row.value = await patch(pathOf(session.id), { name });
    readSessions();
  });
}
