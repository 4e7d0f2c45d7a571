// Ids that are made here, for messages and what is in the making.

/** 32 random hex digits. `crypto.randomUUID` is not there over plain http from another machine. */
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
