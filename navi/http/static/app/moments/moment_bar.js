// The strip of all events with the slider "Moment", below every view.

export function MomentBar() {
  return null;
}
