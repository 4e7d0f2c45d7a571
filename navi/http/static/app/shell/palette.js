// The palette: everything that can be done, and every session, by a few letters of its name.

import { html, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../html.js";
import { go } from "../router.js";
import { leaving, readFurther, sessions } from "../session/session_list.js";
import { ago, t } from "../strings.js";
import { stylesheet } from "../stylesheet.js";
import { commandsNow } from "./commands.js";
import { Modal } from "./dialogs.js";
import { Keys, isComposed } from "./keys.js";
import { fits, inOrder, nameOf } from "./session_groups.js";

await stylesheet("../../style/dialogs.css", import.meta.url);

const RECENT = 5; // sessions that are offered before anything is written
const MOST = 50;

function entriesFor(query) {
  const open = (id) => () => go({ sessionId: id });
  const rows = inOrder(sessions.value ?? []).filter(({ id }) => !leaving.value.has(id));
  const chats = rows.map((row) => ({ id: row.id, name: nameOf(row), run: open(row.id), at: row.last_active }));
  const commands = commandsNow().filter(({ id }) => id !== "commands");
  if (!query) return [...chats.slice(0, RECENT), ...commands];
  return [...commands, ...chats].filter(({ name }) => fits(query, name)).slice(0, MOST);
}

export function Palette({ onClose }) {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef();
  const chosen = useRef(null);
  const id = useId();
  const entries = useMemo(() => entriesFor(query.trim()), [query, sessions.value]);
  useEffect(() => {
    if (query) readFurther(true);
  }, [query, sessions.value]);
  const optionId = (index) => `${id}-${index}`;
  useLayoutEffect(() => list.current.children[at]?.scrollIntoView({ block: "nearest" }), [at, entries]);
  const choose = (entry) => {
    chosen.current = entry;
    list.current.closest("dialog").close();
  };
  const close = () => {
    onClose();
    chosen.current?.run(); // when the focus has gone back, so that it can go on from there
  };
  const onKeyDown = (event) => {
    if (isComposed(event)) return;
    const last = entries.length - 1;
    const next = { ArrowDown: at < last ? at + 1 : 0, ArrowUp: at > 0 ? at - 1 : last }[event.key];
    if (next !== undefined) setAt(Math.max(0, next));
    else if (event.key === "Enter" && entries[at]) choose(entries[at]);
    else if (event.key === "Escape") choose(null); // a search field would only be emptied by it
    else return;
    event.preventDefault();
  };
  return html`
    <${Modal} label=${t("commands")} className="palette" onClose=${close}>
      <input
        type="search"
        aria-label=${t("palette-search")}
        placeholder=${t("palette-hint")}
        aria-controls=${id}
        aria-autocomplete="list"
        aria-activedescendant=${entries.length ? optionId(at) : undefined}
        value=${query}
        onInput=${({ target }) => {
          setQuery(target.value);
          setAt(0);
        }}
        onKeyDown=${onKeyDown}
      />
      <div
        id=${id}
        role="listbox"
        tabindex="0"
        aria-label=${t("commands")}
        aria-activedescendant=${entries.length ? optionId(at) : undefined}
        ref=${list}
        onKeyDown=${onKeyDown}
      >
        ${entries.map(
          (entry, index) => html`
            <div
              key=${entry.id}
              id=${optionId(index)}
              role="option"
              aria-selected=${index === at}
              onPointerMove=${() => setAt(index)}
              onClick=${() => choose(entry)}
            >
              <span dir="auto">${entry.name}</span>
              ${entry.at ? html`<time class="fine" datetime=${entry.at}>${ago(entry.at)}</time>` : html`<${Keys} id=${entry.id} />`}
            </div>
          `,
        )}
      </div>
      ${!entries.length && html`<p class="hint">${t("nothing-found", { query })}</p>`}
    <//>
  `;
}
