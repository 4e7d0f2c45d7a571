// What the input offers while one types: commands after `/`, profiles after `/profile`, files after `@`.

import { get, pathOf } from "../api.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { t } from "../strings.js";
import { commandsFor, profilesLike } from "./commands.js";

const MOST = 8;
const FILE = /(^|\s)@([^\s@]*)$/;

/**
 * What is offered for a text with the caret at a place: `{offers, chosen, listId, choose(offer), onKeyDown}`.
 *
 * An offer is `{key, name, about, text, caret, runs, file}`: what the text becomes, where the caret then is,
 * and whether it is a command that is done at once.
 */
export function useCompletion({ session, isRunning, text, caret, onChoose }) {
  const [chosen, setChosen] = useState(0);
  const [dismissed, setDismissed] = useState(null); // the text for which the list was closed
  const files = useFiles(session, FILE.test(text.slice(0, caret)));
  const offers = dismissed === text ? [] : offersFor({ session, isRunning, text, caret, files }).slice(0, MOST);
  useEffect(() => setChosen(0), [text]);
  const at = Math.min(chosen, offers.length - 1);
  const choose = (offer) => onChoose(offer);
  return {
    offers,
    chosen: at,
    choose,
    /** Whether a key was for the list. */
    onKeyDown(event) {
      if (!offers.length) return false;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) setChosen((at + step + offers.length) % offers.length);
      else if (event.key === "Escape") setDismissed(text);
      else if ((event.key === "Enter" && !event.shiftKey) || event.key === "Tab") choose(offers[at]);
      else return false;
      event.preventDefault();
      event.stopPropagation();
      return true;
    },
  };
}

export function Offers({ id, completion }) {
  const { offers, chosen, choose } = completion;
  if (!offers.length) return null;
  return html`
    <ul role="listbox" id=${id} class="offers" aria-label=${t("offers")}>
      ${offers.map(
        (offer, index) => html`
          <li
            key=${offer.key}
            id=${`${id}-${index}`}
            role="option"
            aria-selected=${index === chosen}
            onMouseDown=${(event) => {
              event.preventDefault(); // the input keeps the focus
              choose(offer);
            }}
          >
            <b dir="auto">${offer.name}</b> <span class="fine">${offer.about}</span>
          </li>
        `,
      )}
    </ul>
  `;
}

function offersFor({ session, isRunning, text, caret, files }) {
  const command = /^\/([a-z]*)$/.exec(text);
  if (command) return commandsFor({ session, isRunning }).filter(({ name }) => name.startsWith(command[1])).map(commandOffer);
  const profile = /^\/profile\s+(\S*)$/.exec(text);
  if (profile) {
    return profilesLike(profile[1]).map(({ id, name, description }) => {
      const chosen = `/profile ${id}`;
      return { key: id, name: id, about: description || name, text: chosen, caret: chosen.length, runs: true };
    });
  }
  const file = FILE.exec(text.slice(0, caret));
  if (!file) return [];
  const before = text.slice(0, caret - file[2].length - 1);
  const wanted = file[2].toLowerCase();
  return files
    .filter(({ name }) => name.toLowerCase().includes(wanted))
    .map(({ name }) => ({ key: name, name, about: t("file"), text: `${before}${name} ${text.slice(caret)}`, caret: before.length + name.length + 1, file: name }));
}

function commandOffer({ name, takes }) {
  const text = takes ? `/${name} ` : `/${name}`;
  return { key: name, name: `/${name}`, about: t(`command-${name}`), text, caret: text.length, runs: !takes };
}

/** The files of a session, read when they are asked for. */
function useFiles(session, isWanted) {
  const [files, setFiles] = useState([]);
  const asked = useRef(false);
  useEffect(() => {
    if (!session || !isWanted) {
      asked.current = false;
      return;
    }
    if (asked.current) return;
    asked.current = true;
    get(pathOf(session.id, "files")).then(
      (answer) => setFiles(answer.files.toReversed()),
      () => {}, // nothing is offered
    );
  }, [session, isWanted]);
  return files;
}
