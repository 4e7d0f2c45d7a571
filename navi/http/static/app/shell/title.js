// The title of the tab: what is open, and how many sessions wait for a person.

import { effect, signal, useEffect } from "../html.js";
import { sessions, waits } from "../session/session_list.js";

const title = signal("");

effect(() => {
  const waiting = sessions.value?.filter(waits).length ?? 0;
  document.title = `${waiting ? `(${waiting}) ` : ""}${title.value ? `${title.value} · navi` : "navi"}`;
});

/** Say in the tab what is open here; nothing on the page on which sessions begin. */
export function useTitle(text) {
  useEffect(() => {
    title.value = text;
  }, [text]);
}
