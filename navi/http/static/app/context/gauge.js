// How full the model's window is.

export function Gauge() {
  return null;
}
