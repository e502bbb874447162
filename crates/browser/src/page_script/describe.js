// Description of a target: what a human is asked about, and what the policy judges, before anything happens.

/// Describes the element of a selector as the target of an action.
function describe(selector, action, key) {
  const found = pick(selector);
  if (!found.element) return { ...found, element: undefined };
  return { target: describeElement(found.element, action, key), isNew: found.isNew || false, count: found.count };
}

function describeElement(element, action, key) {
  const known = entries.get(numbers.get(element));
  const role = roleOf(element);
  const tag = localNameOf(element);
  const name = nameOf(element, role);
  const number = numberOf(element);
  const isPress = action === 'click' || (action === 'type' && (key === 'Enter' || (key === ' ' && nearest(element, isSubmitter) !== null)));
  const acting = action === 'click' ? activated(element) : element;
  const link = isPress ? nearest(acting, (node) => (localNameOf(node) === 'a' || localNameOf(node) === 'area') && has(node, 'href')) : null;
  const form = action === 'submit' ? formOf(element) : isPress ? submittedForm(acting, action) : null;
  const submitter = isPress ? nearest(acting, isSubmitter) : null;
  const href = link ? String(link.href.animVal === undefined ? link.href : link.href.animVal) : '';
  const box = boxOf(standIn(element));
  return {
    number,
    role: role || '',
    name: name || oneLine(textContentOf(element).slice(0, 400), 80),
    before: known && (known.role !== role || known.name !== name) ? `${known.role} "${known.name}"` : '',
    tag: tag.slice(0, 40),
    type: tag === 'input' || tag === 'button' ? element.type : '',
    href: visibleText(href.slice(0, 2000)),
    new_window: link !== null && /^(_blank|[^_].*)$/i.test(attribute(link, 'target') || ''),
    is_download: link !== null && has(link, 'download'),
    form_action: form ? visibleText(actionOf(form, submitter).slice(0, 2000)) : '',
    form_method: form ? methodOf(form, submitter) : '',
    is_submit: form !== null,
    leaves_page: link !== null && leavesPage(href),
    is_password: isSecret(element),
    autocomplete: oneLine(attribute(element, 'autocomplete') || '', 60),
    field_name: oneLine(attribute(element, 'name') || attribute(element, 'id') || '', 60),
    origin: origin === 'null' ? '' : origin,
    box: { x: box.x, y: box.y, width: box.width, height: box.height },
    hidden: hiddenReason(standIn(element)),
  };
}

const formControls = getterOf(HTMLFormElement.prototype, 'elements');
const formMethod = getterOf(HTMLFormElement.prototype, 'method');
const formAction = getterOf(HTMLFormElement.prototype, 'action');

/// The element that a click on `element` acts on: the field of a label.
function activated(element) {
  const label = nearest(element, (node) => localNameOf(node) === 'label');
  return label && label.control && !isInside(element, label.control) ? label.control : element;
}

function isSubmitter(element) {
  const tag = localNameOf(element);
  if (tag === 'button') return element.type === 'submit' && element.form !== null;
  return tag === 'input' && (element.type === 'submit' || element.type === 'image') && element.form !== null;
}

/// The form that an action on the element submits, or null.
function submittedForm(element, action) {
  if (action === 'click') {
    const submitter = nearest(element, isSubmitter);
    return submitter ? submitter.form : null;
  }
  const button = nearest(element, isSubmitter);
  if (button) return button.form;
  // Enter in a field submits its form.
  return localNameOf(element) === 'input' ? element.form : null;
}

/// The form of an element: the one around it, or the one that it names.
function formOf(element) {
  const form = localNameOf(element) === 'form' ? element : element.form || nearest(element, (node) => localNameOf(node) === 'form');
  return form instanceof HTMLFormElement ? form : null;
}

function actionOf(form, submitter) {
  return submitter && has(submitter, 'formaction') ? submitter.formAction : formAction(form);
}

function methodOf(form, submitter) {
  return submitter && has(submitter, 'formmethod') ? submitter.formMethod : formMethod(form);
}

/// Returns true if following the link leads to another document.
function leavesPage(href) {
  if (/^javascript:/i.test(href)) return false;
  const here = location.href.split('#')[0];
  return !(href.includes('#') && href.split('#')[0] === here);
}
