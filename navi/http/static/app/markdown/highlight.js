// Highlighting of code: the languages are loaded when code in them is first shown.
//
// highlight.js gives markup, too, which is not used: what it found is read from its tree of scopes.

import { html } from "../html.js";

const LONGEST = 50_000; // characters; more takes longer than a reader waits
const FILES = new Map(
  Object.entries({
    bash: "bash sh shell zsh console terminal",
    c: "c h",
    cpp: "cpp c++ cc hpp cxx",
    css: "css",
    diff: "diff patch",
    dockerfile: "dockerfile docker containerfile",
    go: "go golang",
    ini: "ini toml conf cfg properties env",
    java: "java",
    javascript: "javascript js jsx mjs cjs",
    json: "json jsonc json5 jsonl ndjson",
    makefile: "makefile make mk",
    markdown: "markdown md",
    python: "python py python3 pycon",
    rust: "rust rs",
    sql: "sql postgres postgresql sqlite mysql plpgsql",
    typescript: "typescript ts tsx mts",
    xml: "xml html xhtml svg rss atom vue",
    yaml: "yaml yml",
  }).flatMap(([file, names]) => names.split(" ").map((name) => [name, file])),
);
// The scopes that look other than text, by what they are called in style/markdown.css.
const LOOKS = new Map(
  Object.entries({
    comment: "comment quote doctag",
    keyword: "keyword built_in type literal selector-tag meta",
    string: "string regexp char symbol link",
    number: "number",
    title: "title section name selector-id selector-class",
    attribute: "attr attribute property variable template-variable",
    added: "addition",
    removed: "deletion",
  }).flatMap(([look, scopes]) => scopes.split(" ").map((scope) => [scope, look])),
);

const loaded = new Map();

/** Whether there is highlighting for a language. */
export function isKnown(language) {
  return FILES.has(language);
}

/** Code as nodes, in a language that is known; null where it is too long. */
export async function highlighted(code, language) {
  if (code.length > LONGEST) return null;
  const file = FILES.get(language);
  if (!loaded.has(file)) loaded.set(file, load(file));
  const hljs = await loaded.get(file).catch((error) => {
    loaded.delete(file); // the next one tries again
    throw error;
  });
  const result = hljs.highlight(code, { language: file, ignoreIllegals: true });
  return nodesOf(result._emitter.rootNode.children);
}

async function load(file) {
  const names = ["core", file]; // named together, they come together
  const [{ default: hljs }, { default: grammar }] = await Promise.all(names.map((name) => import(`../../vendor/highlight/${name}.js`)));
  hljs.registerLanguage(file, grammar);
  return hljs;
}

function nodesOf(children) {
  return children.map((child) => {
    if (typeof child === "string") return child;
    const look = LOOKS.get(child.scope?.split(".")[0]);
    const inner = nodesOf(child.children);
    return look ? html`<span class=${`hl-${look}`}>${inner}</span>` : inner;
  });
}
