// The words of the page in the reader's language. No other module has words that people read.

import { signal } from "./html.js";
import { kept, keep } from "./kept.js";
import en from "./strings/en.js";

const LANGUAGES = { en: () => Promise.resolve({ default: en }), de: () => import("./strings/de.js") };

const catalogue = signal(en);
export const language = signal("en");
let locale = "en"; // the language as it is where the reader lives: how dates and numbers are written
export const languages = Object.keys(LANGUAGES);

/** Use a language from now on; English where there is none of that name. */
async function speak(name) {
  const chosen = Object.hasOwn(LANGUAGES, name) ? name : "en";
  catalogue.value = (await LANGUAGES[chosen]()).default;
  locale = navigator.languages.find((tag) => tag.split("-")[0] === chosen && isLocale(tag)) ?? chosen;
  language.value = chosen;
  document.documentElement.lang = chosen;
}

/** Whether a tag is one to write dates by: a browser may have `en-US@posix` of the system, which none can be written by. */
function isLocale(tag) {
  try {
    return Intl.DateTimeFormat.supportedLocalesOf(tag).length > 0;
  } catch {
    return false;
  }
}

/** Use a language and remember it on this device. */
export function chooseLanguage(name) {
  keep("language", name);
  return speak(name);
}

/** Use the language that was chosen here, else the first of the browser's that there is. */
export function speakAsChosen() {
  const wanted = [kept("language"), ...navigator.languages.map((tag) => tag.split("-")[0])];
  return speak(wanted.find((name) => Object.hasOwn(LANGUAGES, name)) ?? "en");
}

/**
 * The words of a name, with `{place}`s filled in.
 *
 * A name that counts has two entries, `name.one` and `name.other`; `count` chooses.
 */
export function t(name, places = {}) {
  const words = catalogue.value;
  const counted = "count" in places ? `${name}.${places.count === 1 ? "one" : "other"}` : name;
  const found = words[counted] ?? words[name] ?? en[counted] ?? en[name] ?? name;
  return found.replace(/\{(\w+)\}/g, (whole, place) => (place in places ? String(places[place]) : whole));
}

const TO_THE_SECOND = { hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" };
const DECIMALS = [{ maximumFractionDigits: 0 }, { maximumFractionDigits: 1 }];
const formats = new Map();

/** A format of the language that is spoken, made once: making one takes longer than a thousand uses. */
function format(Format, options) {
  const ofLanguage = formats.get(options);
  if (ofLanguage?.language === language.value) return ofLanguage.format;
  const made = new Format(locale, options);
  formats.set(options, { language: language.value, format: made });
  return made;
}

function decimal(value, digits) {
  return format(Intl.NumberFormat, DECIMALS[digits]).format(value);
}

/** A number of tokens as people read it: 940, 15.7k, 1.2M. */
export function tokens(count) {
  if (count < 1000) return String(count);
  const [value, unit] = count < 1e6 ? [count / 1e3, "k"] : [count / 1e6, "M"];
  return `${decimal(value, value < 100 ? 1 : 0)}${unit}`;
}

/** A number of bytes as people read it: 940 B, 15.7 kB, 1.2 MB. */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const [value, unit] = bytes < 1e6 ? [bytes / 1e3, "kB"] : [bytes / 1e6, "MB"];
  return `${decimal(value, value < 100 ? 1 : 0)} ${unit}`;
}

/** A duration as people read it: 35 ms, 1.2 s, 3 min 20 s. The units are the same in all languages here. */
export function duration(milliseconds) {
  const ms = Math.max(0, Math.round(milliseconds));
  if (ms < 1000) return `${ms} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${decimal(seconds, seconds < 10 ? 1 : 0)} s`;
  return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

/** How long ago something was, in a word: now, 12 min, 3 h, 4 d. */
export function ago(at, now = Date.now()) {
  const minutes = Math.floor((now - Date.parse(at)) / 60000);
  if (minutes < 1) return t("now-ago");
  if (minutes < 60) return t("minutes-ago", { n: minutes });
  if (minutes < 1440) return t("hours-ago", { n: Math.floor(minutes / 60) });
  return t("days-ago", { n: Math.floor(minutes / 1440) });
}

/** The time of a day, to the second: 14:03:21. */
export function clock(at) {
  return format(Intl.DateTimeFormat, TO_THE_SECOND).format(new Date(at));
}

/** A moment in time, in full. */
export function time(at) {
  return new Date(at).toLocaleString(locale, { dateStyle: "medium", timeStyle: "medium" });
}
