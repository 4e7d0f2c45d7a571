// What goes on now, in one line.

export function Activity() {
  return null;
}
