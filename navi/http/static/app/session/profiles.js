// The profiles that navi offers, by id.

import { get, keepAsking } from "../api.js";
import { signal } from "../html.js";

/** A `Map` of what `GET /profiles` gives, by id. */
export const profiles = signal(new Map());

/** The share of a window above which contexts are compressed by themselves; null where they are not. */
export const compression = signal(null);

/** The name of a profile; its id where nothing is known of it. */
export function profileName(id) {
  return profiles.value.get(id)?.name || id || "";
}

let reading = null;

/** Done when navi has said what profiles there are, or that it cannot now. */
export const asked = () => reading.catch(() => {});

async function read() {
  const answer = await get("/profiles");
  profiles.value = new Map(answer.profiles.map((profile) => [profile.id, profile]));
  compression.value = answer.compression.enabled ? answer.compression.threshold : null;
}

keepAsking(() => (reading = read()));
