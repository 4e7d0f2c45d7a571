// What a tool call is about, in a few words.

import { t } from "../strings.js";

// Where tools say what they are about, in the order of what says most.
const SUBJECTS = ["path", "url", "query", "host", "command", "code", "task", "file", "name", "text", "content", "profile_id", "id"];
const LONGEST = 120;

/** A few words of a call's arguments: "read notes.txt", "teashop.example/prices". */
export function aboutTool(args) {
  if (args === null || typeof args !== "object" || Array.isArray(args)) return "";
  const said = [];
  if (typeof args.action === "string") said.push(args.action);
  if (typeof args.host === "string") said.push(`${args.host}:`);
  said.push(subjectOf(args));
  return shortened(said.filter(Boolean).join(" "));
}

/** What a tool does, as one says it: "reading notes.txt". */
export function doing(name, args) {
  const what = shortened(subjectOf(args ?? {}), 48);
  for (const key of [`doing-${name}-${args?.action}`, `doing-${name}`]) {
    const words = t(key, { what });
    if (words !== key && (what || t(key) === words)) return words;
  }
  return t("doing", { name });
}

function subjectOf(args) {
  const known = SUBJECTS.find((name) => name !== "host" && typeof args[name] === "string" && args[name]);
  const subject = known ? args[known] : Object.values(args).find((value) => typeof value === "string" && value !== args.action);
  return String(subject ?? "").replace(/^https?:\/\//, "");
}

function shortened(text, longest = LONGEST) {
  const line = text.trim().split("\n", 1)[0];
  const isCut = line.length > longest || line.length < text.trim().length;
  return isCut ? `${line.slice(0, longest)} …` : line;
}
