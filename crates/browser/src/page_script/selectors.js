// Selectors: references, CSS and XPath. A selector stands for one element, or the answer says why not.

/// Returns the elements of a selector `{ number }`, `{ css }` or `{ xpath }`, or the problem with it.
function matchesOf(selector) {
  if (selector.number) {
    const found = resolveNumber(selector.number);
    return found.element ? { elements: [found.element], isNew: found.isNew } : found;
  }
  try {
    return { elements: selector.xpath ? byXPath(selector.xpath) : byCss(selector.css) };
  } catch (error) {
    return { problem: 'invalid', detail: oneLine(String(error.message), 300) };
  }
}

function byXPath(path) {
  const found = document.evaluate(path, document, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
  const elements = [];
  for (let index = 0; index < found.snapshotLength; index += 1) {
    const node = found.snapshotItem(index);
    if (isElement(node)) elements.push(node);
  }
  return elements;
}

/// Looks into shadow roots only when the document itself has no match.
function byCss(css) {
  const outside = document.querySelectorAll(css);
  if (outside.length > 0) return Array.from(outside);
  const elements = [];
  eachElement((element) => {
    const shadow = shadowRootOf(element);
    if (shadow) elements.push(...shadow.querySelectorAll(css));
  });
  return elements;
}

/// Returns the one element that is meant: the only match, or the only visible one.
function pick(selector) {
  const found = matchesOf(selector);
  if (found.problem) return found;
  const { elements } = found;
  if (elements.length === 0) return { problem: 'none', count: 0 };
  if (elements.length === 1) return { element: elements[0], count: 1, isNew: found.isNew || false };
  const visible = elements.slice(0, 1000).filter((element) => !hiddenReason(element));
  if (visible.length === 1) return { element: visible[0], count: elements.length, isNew: false };
  return { problem: 'many', count: elements.length, visible: visible.length, shown: (visible.length > 0 ? visible : elements).slice(0, 5).map(candidate) };
}

/// Counts the matches of a selector and describes the first of them, for a choice over all frames.
function find(selector) {
  const found = pick(selector);
  if (!found.element) {
    return {
      count: found.count || 0,
      visible: found.visible || 0,
      problem: found.problem,
      detail: found.detail || '',
      shown: found.shown || [],
    };
  }
  return {
    count: found.count,
    visible: hiddenReason(found.element) ? 0 : 1,
    number: numberOf(found.element),
    isNew: found.isNew,
    shown: [candidate(found.element)],
  };
}

/// Returns what an error shows of an element.
function candidate(element) {
  const role = roleOf(element) || localNameOf(element).slice(0, 40);
  return { number: numberOf(element), role, name: oneLine(nameOf(element, role) || textContentOf(element).slice(0, 200), 60) };
}

/// Returns what comes nearest to a selector without a match.
function nearestTo(selector) {
  const text = String(selector.css || selector.xpath || '').slice(0, 1000);
  return { prefix: selector.css ? longestPrefix(text) : null, shown: alike(text) };
}

/// Returns the longest beginning of a CSS selector that matches, and the number of its matches.
function longestPrefix(css) {
  for (let end = css.length - 1, tries = 0; end > 0 && tries < 60; end -= 1) {
    if (!/[\s>+~.#:[\]]/.test(css[end])) continue;
    const prefix = css.slice(0, css[end] === ']' ? end + 1 : end).replace(/[\s>+~,]+$/, '');
    if (prefix === '' || prefix === css) continue;
    tries += 1;
    try {
      const { length } = document.querySelectorAll(prefix);
      if (length > 0) return { text: oneLine(prefix), count: length };
    } catch {
      // A cut within brackets is no selector.
    }
  }
  return null;
}

/// Returns the controls that share the most words with a selector.
function alike(text) {
  const words = new Set((text.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) || []).slice(0, 20));
  const scored = [];
  let seen = 0;
  labelsByRoot = new Map();
  try {
    eachElement((element) => {
      const role = roleOf(element);
      if (!INTERACTIVE.has(role)) return true;
      seen += 1;
      const described = [role, localNameOf(element), nameOf(element, role), attribute(element, 'id'), attribute(element, 'class'), attribute(element, 'name'), attribute(element, 'type')]
        .join(' ')
        .toLowerCase()
        .slice(0, 1000);
      let score = 0;
      for (const word of words) if (described.includes(word)) score += 1;
      if (score > 0 && !hiddenReason(element)) scored.push({ score, element });
      return seen < 3000;
    });
  } finally {
    labelsByRoot = null;
  }
  scored.sort((one, other) => other.score - one.score);
  return scored.slice(0, 3).map(({ element }) => candidate(element));
}
