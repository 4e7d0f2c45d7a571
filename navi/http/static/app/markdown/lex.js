// Markdown taken apart into tokens: blocks first, the text within a block when it is drawn.
//
// marked's lexer, held to limits: what a model wrote may be made to nest ten thousand deep, or so that
// finding the end of an emphasis takes minutes. Beyond a limit the text stands as it was written.

import { Lexer, Tokenizer } from "../../vendor/marked.js";

const DEEPEST = 24; // levels of quotes and lists, or of emphasis
const MOST_BLOCKS = 20_000; // paragraphs, items, cells of one text
const HARDEST = 2e6; // length of a paragraph times its marks: 50 ns each at the worst, measured
const HARDEST_ALL = 1e7; // of all paragraphs of one text together
const MARKS = /[*_~<[`!@]/g;
const LONGEST_NAME = 300; // characters before an @

// `$x$`, `$$x$$`, `\(x\)` and `\[x\]`, as far as no money and no escaped bracket can be meant.
const MATH =
  /^(?:\$\$[^$]{1,2000}\$\$|\$(?![\s$])[^$`\n]{0,300}?[^\s$`\\]\$(?!\w)|\\\((?=[^\n]{0,300}?[\\^_={}+]|\s?\w\s?\\\))[^\n]{1,300}?\\\)|\\\[(?=[\s\S]{0,300}?[\\^_={}+])[\s\S]{1,2000}?\\\])/;
const MATH_BEGINS = /\$|\\[([]/;
const MATHS = new RegExp(MATH.source.slice(1), "g");

class Tokens extends Tokenizer {
  // What every step of the lexer begins with.
  space(source) {
    if (++this.lexer.blocks > MOST_BLOCKS) return { type: "html", block: true, raw: source, text: source };
    return super.space(source);
  }
}

class LimitedLexer extends Lexer {
  depth = 0;
  blocks = 0;

  blockTokens(source, tokens = [], last = false) {
    if (this.depth >= DEEPEST) {
      if (source) tokens.push({ type: "html", block: true, raw: source, text: source });
      return tokens;
    }
    this.depth++;
    try {
      return super.blockTokens(source, tokens, last);
    } finally {
      this.depth--;
    }
  }

  inlineTokens(source, tokens = []) {
    if (this.depth >= DEEPEST) {
      if (source) tokens.push({ type: "text", raw: source, text: source, escaped: true });
      return tokens;
    }
    this.depth++;
    try {
      return super.inlineTokens(source, tokens);
    } finally {
      this.depth--;
    }
  }
}

function math(source) {
  const found = MATH.exec(source);
  return found ? { type: "math", raw: found[0], text: found[0] } : undefined;
}

function options() {
  return {
    gfm: true,
    breaks: true,
    tokenizer: new Tokens(),
    extensions: {
      inline: [math],
      startInline: [(source) => nullable(source.search(MATH_BEGINS))],
      renderers: {},
      childTokens: {},
    },
    // What stands in mathematics ends no emphasis.
    hooks: { emStrongMask: (source) => source.replace(MATHS, (found) => "a".repeat(found.length)) },
  };
}

const nullable = (index) => (index < 0 ? undefined : index);

/**
 * The blocks of a text: `{tokens, links}`, `links` the addresses that `[name]: address` gave, those of
 * `known` among them; the same object where the text names none.
 *
 * Lines end in `\n`. Texts within blocks are not taken apart yet: see `lexInline`.
 */
export function lexBlocks(source, known = null) {
  const lexer = new LimitedLexer(options());
  Object.assign(lexer.tokens.links, known);
  lexer.blockTokens(source, lexer.tokens);
  // What is to be taken apart is in the queue; what would take too long is not in what is shown.
  let left = HARDEST_ALL;
  for (const { src, tokens } of lexer.inlineQueue) {
    left -= hardness(src);
    if (left < 0) tokens.push({ type: "plain" });
  }
  const names = Object.keys(lexer.tokens.links).length;
  const isNew = names > (known === null ? 0 : Object.keys(known).length);
  return { tokens: [...lexer.tokens], links: isNew ? lexer.tokens.links : known };
}

/** The tokens of the text within a block. */
export function lexInline(source, links = null) {
  if (hardness(source) > HARDEST) return [{ type: "text", raw: source, text: source }];
  const lexer = new LimitedLexer(options());
  Object.assign(lexer.tokens.links, links);
  return lexer.inlineTokens(source);
}

/** How long taking a text apart may take at the worst. */
function hardness(source) {
  if (source.length < 200) return 0;
  for (let at = source.indexOf("@", LONGEST_NAME); at >= 0; at = source.indexOf("@", at + 1)) {
    if (!/\s/.test(source.slice(at - LONGEST_NAME, at))) return Infinity;
  }
  return source.length * (source.match(MARKS)?.length ?? 0);
}

// Names of characters that models write; numbers are read by the lexer.
const NAMED = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", colon: ":", Tab: "\t", NewLine: "\n", shy: "\u00ad",
  copy: "©", reg: "®", trade: "™", deg: "°", middot: "·", bull: "•", hellip: "…", ndash: "–", mdash: "—", times: "×",
  divide: "÷", plusmn: "±", minus: "−", ne: "≠", le: "≤", ge: "≥", asymp: "≈", infin: "∞", micro: "µ", euro: "€",
  pound: "£", yen: "¥", cent: "¢", sect: "§", para: "¶", larr: "←", uarr: "↑", rarr: "→", darr: "↓", harr: "↔",
  rArr: "⇒", lsquo: "‘", rsquo: "’", ldquo: "“", rdquo: "”", laquo: "«", raquo: "»", check: "✓", ensp: "\u2002",
  emsp: "\u2003", thinsp: "\u2009",
};

/** A text with the characters that stand in it by name, such as `&amp;`. */
export function decoded(text) {
  if (!text.includes("&")) return text;
  return text.replace(/&(\w{2,8});|&#(?:x([\da-f]{1,6})|(\d{1,7}));/gi, (whole, name, hex, decimal) => {
    if (name) return Object.hasOwn(NAMED, name) ? NAMED[name] : whole;
    const code = hex ? parseInt(hex, 16) : Number(decimal);
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000) ? String.fromCodePoint(code) : whole;
  });
}
