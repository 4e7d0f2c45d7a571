// The conversation as a Markdown file.

import { profileName } from "../session/profiles.js";
import { t } from "../strings.js";
import { conversation } from "../folds/conversation.js";

/** Save what is shown at the moment that is looked at, from the beginning of the log. */
export async function saveAsMarkdown(session) {
  await session.log.reach(0);
  const name = session.row.value?.name || t("unnamed");
  const state = session.foldAt(conversation, session.moment.value ?? session.log.head.value);
  const parts = [`# ${name}`, ...state.turns.flatMap((turn) => turn.items.flatMap(partOf))];
  const address = URL.createObjectURL(new Blob([`${parts.join("\n\n")}\n`], { type: "text/markdown" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `${name.replace(/[^\p{L}\p{N} ._-]+/gu, "_").slice(0, 80)}.md`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  return true;
}

const PARTS = {
  user: (item) => [`## ${t("you")}`, item.content, ...(item.files.length ? [item.files.map((file) => `- ${file}`).join("\n")] : [])],
  answer: (item) => (item.text ? [`## ${profileName(item.profileId)}`, item.text] : []),
  plan: (item) => (item.text ? [`## ${t("plan")}`, item.text] : []),
  tool: (item) => [`- \`${item.name}\`: ${t(`state-${item.state}`)}`],
  subagent: (item) => [`- ${t("subagent-card", { name: profileName(item.profileId) })}: ${t(`state-${item.state}`)}`],
};

function partOf(item) {
  return PARTS[item.kind]?.(item) ?? [];
}
