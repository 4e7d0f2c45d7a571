// Days, as usage is counted by: UTC, `2026-11-22`.

const DAY = 86_400_000; // ms

/** The last days up to today, oldest first. */
export function lastDays(count) {
  const now = Date.now();
  return Array.from({ length: count }, (_, index) => new Date(now - (count - 1 - index) * DAY).toISOString().slice(0, 10));
}
