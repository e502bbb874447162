// Functions that the runtime calls, by name. What they return is written as JSON.

globalThis.handfast = {
  choose, describe, fieldState, find, focusOn, focusedNumber, frameCover, frameElements, guarded, html, masks, nearestTo, pause, prepareToType, ready,
  scroll, setSecret, setValue, snapshot, state, submit, text,
  next: () => nextNumber,
  elementOf: (number) => attached(number),
};
