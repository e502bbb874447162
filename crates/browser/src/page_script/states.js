// States of elements: words in a fixed order, and the value that a field shows.

function statesOf(element, role) {
  const states = [];
  const tag = localNameOf(element);
  const is = (name) => attribute(element, name) === 'true';
  if (tag === 'input' && (element.type === 'checkbox' || element.type === 'radio')) {
    if (element.indeterminate) states.push('mixed');
    else if (element.checked) states.push('checked');
  } else {
    const checked = attribute(element, 'aria-checked');
    if (checked === 'true') states.push('checked');
    else if (checked === 'mixed') states.push('mixed');
  }
  if (is('aria-pressed')) states.push('pressed');
  if (is('aria-selected') || (tag === 'option' && element.selected)) states.push('selected');
  const current = attribute(element, 'aria-current');
  if (current && current !== 'false') states.push('current');
  const expanded = attribute(element, 'aria-expanded');
  if (expanded !== null) states.push(expanded === 'true' ? 'expanded' : 'collapsed');
  else if (tag === 'summary') states.push(has(parentOf(element), 'open') ? 'expanded' : 'collapsed');
  if (isDisabled(element)) states.push('disabled');
  if (FIELDS.has(tag)) {
    if (element.required) states.push('required');
    if (element.readOnly) states.push('readonly');
    if (isSecret(element)) states.push(element.value ? 'password, filled' : 'password, empty');
    // An empty required field is invalid from the start; that is no news before somebody was there.
    if (is('aria-invalid') || (element.willValidate && element.value !== '' && !element.validity.valid)) states.push('invalid');
  } else if (is('aria-invalid')) states.push('invalid');
  if (!FIELDS.has(tag) && is('aria-required')) states.push('required');
  if (is('aria-readonly')) states.push('readonly');
  if (is('aria-busy')) states.push('busy');
  if ((role === 'dialog' || role === 'alertdialog') && (is('aria-modal') || (tag === 'dialog' && isMatch(element, ':modal')))) states.push('modal');
  if (document.activeElement === element && element !== document.body) states.push('focused');
  return states;
}

const FIELDS = new Set(['input', 'select', 'textarea']);

function isDisabled(element) {
  return isMatch(element, ':disabled') || attribute(element, 'aria-disabled') === 'true';
}

/// Returns the value that a field shows as one line, or null. The value of a secret field is never read.
function shownValueOf(element) {
  const tag = localNameOf(element);
  if (isSecret(element)) return null;
  if (tag === 'input') {
    const type = element.type;
    if (['checkbox', 'radio', 'button', 'submit', 'reset', 'image', 'hidden', 'password'].includes(type)) return null;
    if (type === 'file') return Array.from(element.files || []).slice(0, 5).map((file) => oneLine(file.name, 60)).join(', ') || null;
    return element.value ? oneLine(element.value, VALUE_LIMIT) : null;
  }
  if (tag === 'textarea') return element.value ? oneLine(element.value, VALUE_LIMIT) : null;
  if (tag === 'select') {
    const shown = [];
    const chosen = element.selectedOptions;
    for (let index = 0; index < chosen.length && index < 10; index += 1) shown.push(oneLine(chosen[index].label, 60));
    return shown.join(', ') || null;
  }
  if (tag === 'progress' || tag === 'meter') return String(element.value);
  const now = attribute(element, 'aria-valuetext') || attribute(element, 'aria-valuenow');
  if (now) return oneLine(now, VALUE_LIMIT);
  if (isEditingHost(element)) {
    const found = new NameText();
    collectContent(element, found, 0);
    return oneLine(found.text, VALUE_LIMIT) || null;
  }
  return null;
}

/// Returns a note on the options of a list, so that one can be chosen without reading it first.
function optionsOf(element) {
  const options = element.options;
  if (options.length > 12) return `${options.length} options`;
  const shown = [];
  for (let index = 0; index < options.length; index += 1) shown.push(oneLine(options[index].label, 30));
  return `options: ${shown.join(', ')}`;
}
