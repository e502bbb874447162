// Parts of actions that happen inside the page: what input events of the browser cannot do.

// Fields whose text a keyboard enters in parts that depend on the language of the browser.
const SET_TYPES = new Set(['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range']);
const FORMATS = {
  date: 'YYYY-MM-DD', time: 'HH:MM', 'datetime-local': 'YYYY-MM-DDTHH:MM', month: 'YYYY-MM', week: 'YYYY-Www',
  color: '#rrggbb', range: 'a number within its limits and steps',
};

const gone = (number) => ({ problem: 'gone', detail: `e${number} has left the page.` });

/// Returns the innermost element that has the focus, through open shadow roots.
function focusedElement() {
  let found = document.activeElement;
  while (found && shadowRootOf(found) && shadowRootOf(found).activeElement) found = shadowRootOf(found).activeElement;
  return found;
}

/// Gives the focus to a field and selects its content, so that the next text replaces it.
function prepareToType(number, isAppending) {
  const element = attached(number);
  if (!element) return gone(number);
  const tag = localNameOf(element);
  const isInput = tag === 'input' || tag === 'textarea';
  if (tag === 'input' && SET_TYPES.has(element.type)) return { kind: 'set', focused: true, is_empty: element.value === '', is_one_line: true };
  element.focus({ preventScroll: false });
  const focused = focusedElement();
  const isFocused = focused === element || (!isInput && focused !== null && isInside(element, focused));
  if (isFocused && isInput && !isAppending) element.select();
  else if (isFocused && !isInput) {
    const selection = getSelection();
    selection.selectAllChildren(element);
    if (isAppending) selection.collapseToEnd();
  }
  const isEmpty = isInput ? element.value === '' : textContentOf(element) === '';
  return { kind: isInput ? 'text' : 'rich', focused: isFocused, is_empty: isEmpty, is_one_line: tag === 'input' };
}

/// Gives the focus to an element, for keys. Returns false if it does not take it.
function focusOn(number) {
  const element = attached(number);
  if (!element) return gone(number);
  if (!isInside(focusedElement(), element)) element.focus();
  return { focused: isInside(focusedElement(), element) };
}

/// Sets the value of a field that takes no text from a keyboard.
function setValue(number, value) {
  const element = attached(number);
  if (!element) return gone(number);
  const before = element.value;
  element.focus();
  element.value = value;
  const isKept = element.type === 'color' ? element.value === value.toLowerCase() : element.value === value || (element.type === 'range' && Number(element.value) === Number(value));
  if (!isKept) {
    element.value = before;
    return { problem: 'format', detail: `an input of type ${element.type} takes ${FORMATS[element.type]}` };
  }
  report(element);
  return fieldState(number);
}

/// Secrets that were typed into this document, which knows them anyway.
const typedSecrets = new Set();

/// Sets the value of a secret field of this origin, in the turn in which both are checked.
function setSecret(number, value, origin, field) {
  const element = attached(number);
  if (!element) return gone(number);
  if (location.origin !== origin) return { problem: 'origin', detail: `its document belongs to ${location.origin} now` };
  const tag = localNameOf(element);
  const names = [attribute(element, 'name') || attribute(element, 'id'), attribute(element, 'autocomplete')];
  if (field !== '' && (tag === 'input' || tag === 'textarea') && names.includes(field)) secretFields.add(element);
  if ((tag !== 'input' && !secretFields.has(element)) || !isSecret(element)) {
    return { problem: 'field', detail: 'it is no field for this secret' };
  }
  typedSecrets.add(value);
  element.focus();
  element.value = value;
  report(element);
  return fieldState(number);
}

function report(element) {
  element.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
  element.dispatchEvent(new Event('change', { bubbles: true }));
}

/// Returns what a field holds now. Of a secret field, only the length.
function fieldState(number) {
  const element = attached(number);
  if (!element) return gone(number);
  const isField = FIELDS.has(localNameOf(element));
  const held = isField ? element.value : element.innerText;
  const secret = isSecret(element);
  return {
    value: secret ? null : visibleText(held.slice(0, 2000)),
    length: Array.from(held.slice(0, 100_000)).length,
    max_length: isField && element.maxLength > 0 ? element.maxLength : null,
    message: isField && element.willValidate && !element.validity.valid ? oneLine(element.validationMessage) : '',
    checked: isField ? element.checked === true : attribute(element, 'aria-checked') === 'true' || attribute(element, 'aria-pressed') === 'true',
    is_secret: secret,
  };
}

/// Chooses options of a list by value, label or position, once all of them are there.
async function choose(number, wanted, limit) {
  const end = performance.now() + limit;
  for (;;) {
    const element = attached(number);
    if (!element) return gone(number);
    if (localNameOf(element) !== 'select') {
      return { problem: 'kind', detail: `<${localNameOf(element).slice(0, 40)}> is no list of a form: click it, then click the option` };
    }
    if (!element.multiple && wanted.length !== 1) return { problem: 'kind', detail: 'this list takes exactly one option' };
    const options = Array.from(element.options);
    const chosen = wanted.map((text) => optionFor(options, text));
    const missing = wanted.filter((_, index) => !chosen[index]);
    if (missing.length === 0) {
      const off = chosen.find((option) => isMatch(option, ':disabled'));
      if (off) return { problem: 'kind', detail: `the option "${oneLine(off.label, 60)}" is disabled` };
      for (const option of options) option.selected = chosen.includes(option);
      report(element);
      return { chosen: chosen.map((option) => oneLine(option.label, 100)) };
    }
    if (performance.now() >= end) {
      const shown = options.slice(0, 20).map((option) => `"${oneLine(option.label, 40)}"`).join(', ');
      const more = options.length > 20 ? `, and ${options.length - 20} more` : '';
      return { problem: 'option', detail: `no option "${oneLine(missing[0], 60)}"; there are ${options.length}: ${shown}${more}` };
    }
    await nextFrame();
  }
}

function optionFor(options, text) {
  const plain = (label) => label.replace(/\s+/g, ' ').trim();
  const wanted = plain(text);
  return (
    options.find((option) => option.value === text) ||
    options.find((option) => plain(option.label) === wanted) ||
    options.find((option) => plain(option.label).toLowerCase() === wanted.toLowerCase()) ||
    (/^\d{1,6}$/.test(text) ? options[Number(text)] : undefined)
  );
}

/// Submits the form of an element, unless fields of it are invalid.
function submit(number) {
  const element = attached(number);
  if (!element) return gone(number);
  const form = formOf(element);
  if (!form) return { problem: 'kind', detail: 'it belongs to no form' };
  const isChecked = !has(form, 'novalidate') && !has(element, 'formnovalidate');
  const invalid = [];
  for (const field of isChecked ? formControls(form) : []) {
    if (field.willValidate && !field.validity.valid && invalid.length < 10) {
      invalid.push({ ...candidate(field), message: oneLine(field.validationMessage) });
    }
  }
  if (invalid.length > 0) return { invalid };
  const submitter = isSubmitter(element) && element.form === form ? element : undefined;
  // A dialog that a handler opens would hold up the answer of this call.
  setTimeout(() => HTMLFormElement.prototype.requestSubmit.call(form, submitter));
  return { invalid: [] };
}

/// Scrolls, and returns where that led. `number` 0 is the page, or what scrolls in its middle.
function scroll(number, to, amount) {
  const element = number ? attached(number) : null;
  if (number && !element) return gone(number);
  if (to === 'view') scrollIntoView.call(element || document.documentElement, { block: 'center', inline: 'nearest', behavior: 'instant' });
  const scroller = scrollerOf(element, to);
  const before = [scroller.scrollLeft, scroller.scrollTop];
  const page = Math.max(scroller.clientHeight * 0.9, 20);
  const across = Math.max(scroller.clientWidth * 0.9, 20);
  const go = (left, top) => scroller.scrollTo({ left, top, behavior: 'instant' });
  if (to === 'top') go(before[0], 0);
  else if (to === 'bottom') go(before[0], scroller.scrollHeight);
  else if (to === 'pages') go(before[0], before[1] + page * amount);
  else if (to === 'pages_right') go(before[0] + across * amount, before[1]);
  else if (to === 'pixels') go(before[0], before[1] + amount);
  return {
    top: Math.round(scroller.scrollTop),
    left: Math.round(scroller.scrollLeft),
    height: scroller.scrollHeight,
    viewport: scroller.clientHeight,
    has_moved: to === 'view' || scroller.scrollTop !== before[1] || scroller.scrollLeft !== before[0],
    is_at_end: scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 1,
    of: scroller === document.scrollingElement ? 'the page' : briefly(scroller),
  };
}

function scrollerOf(element, to) {
  const page = document.scrollingElement || document.documentElement;
  const isScroller = (node) =>
    (node.scrollHeight > node.clientHeight + 1 || node.scrollWidth > node.clientWidth + 1) && /auto|scroll|overlay/.test(getComputedStyle(node).overflow);
  if (to === 'view') return element ? nearest(element, isScroller) || page : page;
  if (element) return nearest(element, isScroller) || page;
  if (page.scrollHeight > page.clientHeight + 1) return page;
  return nearest(elementAt(innerWidth / 2, innerHeight / 2), isScroller) || page;
}

/// Returns whether a condition holds in this frame: `{ selector, isHidden }` or `{ text, isHidden }`.
function state(condition) {
  if (condition.text !== undefined) return { holds: showsText(condition.text) };
  const found = matchesOf(condition.selector);
  if (found.problem === 'invalid' || found.problem === 'unknown') return found;
  const visible = (found.elements || []).filter((element) => !hiddenReason(element)).length;
  return { holds: visible > 0, count: (found.elements || []).length };
}

function showsText(text) {
  const plain = (value) => value.replace(/\s+/g, ' ').trim().toLowerCase();
  const wanted = plain(text);
  const firstWord = wanted.split(' ')[0];
  const roots = [document.body || document.documentElement];
  eachElement((element) => {
    const shadow = shadowRootOf(element);
    if (shadow) roots.push(...shadow.children);
  });
  return roots.some((root) => root && textContentOf(root).toLowerCase().includes(firstWord) && plain(root.innerText || '').includes(wanted));
}

/// Resolves when the document changes, or after `limit` milliseconds.
function pause(limit) {
  return new Promise((resolve) => {
    const observer = new MutationObserver(() => end());
    const timer = setTimeout(() => end(), limit);
    const end = () => {
      observer.disconnect();
      clearTimeout(timer);
      requestAnimationFrame(() => resolve({}));
      setTimeout(() => resolve({}), 100);
    };
    observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  });
}

/// Returns the number of the element that has the focus, 0 for none.
function focusedNumber() {
  const element = focusedElement();
  if (!element || element === document.body || element === document.documentElement) return { number: 0, is_frame: false };
  const tag = localNameOf(element);
  return { number: numberOf(element), is_frame: tag === 'iframe' || tag === 'frame' };
}
