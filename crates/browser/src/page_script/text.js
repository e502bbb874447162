// Text of pages as one visible line: bounded, without control characters, and without characters
// that reorder or hide what stands beside them.

const NAME_LIMIT = 200;
const VALUE_LIMIT = 100;

// Soft hyphens, joiners, marks of direction, selectors of variants, tags: they show nothing.
const INVISIBLE = /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u2064\u206a-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0]|[\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/gu;
// Controls, and overrides of direction: they are written out.
const ACTIVE = /[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]/gu;
// eslint-disable-next-line no-control-regex
const SUSPECT = /[^\u0020-\u007e\u00a1-\u00ac\u00ae-\u033f\u0370-\u060b\u0620-\u10ff\u3040-\u3163\u3165-\ud7ff]/u;
const SPACES = /\s+/gu;
const PLAIN_SPACES = / {2,}/;

/// Returns the text as one line of at most `limit` characters.
function oneLine(text, limit = NAME_LIMIT) {
  // Most of a long text is never looked at.
  let cut = text.length > limit * 8 ? text.slice(0, limit * 8) : text;
  if (SUSPECT.test(cut)) {
    cut = cut.toWellFormed().replace(SPACES, ' ').replace(INVISIBLE, '');
    cut = cut.replace(ACTIVE, (character) => `‹U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}›`);
  } else if (PLAIN_SPACES.test(cut)) {
    cut = cut.replace(SPACES, ' ');
  }
  cut = cut.trim();
  const wasCut = text.length > limit * 8;
  if (cut.length <= limit) return wasCut ? `${cut}…` : cut;
  // A pair of surrogates is never split.
  return `${cut.slice(0, limit - 1).toWellFormed().replace(/\ufffd$/u, '').trimEnd()}…`;
}

/// Returns text of several lines with the same characters written out or dropped.
function visibleText(text) {
  if (!SUSPECT.test(text)) return text;
  return text
    .toWellFormed()
    .replace(INVISIBLE, '')
    .replace(ACTIVE, (character) => `‹U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}›`);
}
