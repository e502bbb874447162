// Accessible names, for the usual cases of the specification ("Accessible Name and Description
// Computation"). Content that style sheets generate is not part of a name.

const NAMED_BY_CONTENT = new Set(
  `button link heading cell columnheader rowheader gridcell checkbox radio switch menuitem menuitemcheckbox
   menuitemradio option tab treeitem tooltip term caption`.split(/\s+/),
);
const LABELABLE = new Set(['input', 'select', 'textarea', 'meter', 'progress', 'output', 'button']);
const INLINE = new Set(
  `a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q s samp slot small span
   strike strong sub sup time tt u var wbr`.split(/\s+/),
);
const UNREAD = new Set(['script', 'style', 'noscript', 'template', 'head', 'meta', 'link', 'title', 'object', 'embed', 'canvas']);

/// Collects the text of one name, up to limits of characters, nodes and depth.
class NameText {
  constructor() {
    this.text = '';
    this.nodes = 0;
  }

  isFull() {
    return this.text.length > NAME_LIMIT * 3 || this.nodes > 2000;
  }

  add(text) {
    this.text += text.length > NAME_LIMIT * 4 ? text.slice(0, NAME_LIMIT * 4) : text;
  }
}

/// Returns the name of an element as one line.
function nameOf(element, role) {
  const found = new NameText();
  collectName(element, role, found);
  return oneLine(found.text);
}

function collectName(element, role, found) {
  const ids = attribute(element, 'aria-labelledby');
  if (ids && ids.trim()) {
    const root = element.getRootNode();
    for (const id of ids.slice(0, 1000).trim().split(/\s+/).slice(0, 20)) {
      const other = root.getElementById ? root.getElementById(id) : document.getElementById(id);
      if (other) {
        collectLabel(other, found);
        found.add(' ');
      }
    }
    if (found.text.trim()) return;
  }
  const label = attribute(element, 'aria-label');
  if (label && label.trim()) return found.add(label);
  collectNativeName(element, found);
  if (found.text.trim()) return;
  if (NAMED_BY_CONTENT.has(role)) collectContent(element, found, 0);
  if (found.text.trim()) return;
  found.add(attribute(element, 'title') || attribute(element, 'placeholder') || attribute(element, 'aria-placeholder') || '');
}

// Labels by root and field, during a walk. `element.labels` goes through the whole document each time.
let labelsByRoot = null;
const NO_LABELS = [];

function labelsOf(element) {
  if (!labelsByRoot) return element.labels || NO_LABELS;
  const root = element.getRootNode();
  let labels = labelsByRoot.get(root);
  if (!labels) {
    labels = new Map();
    labelsByRoot.set(root, labels);
    for (const label of root.querySelectorAll ? root.querySelectorAll('label') : NO_LABELS) {
      const field = label.control;
      if (field) push(labels, field, label);
    }
  }
  return labels.get(element) || NO_LABELS;
}

/// Collects the text of an element that names another one.
function collectLabel(element, found) {
  const label = attribute(element, 'aria-label');
  if (label && label.trim()) return found.add(label);
  const tag = localNameOf(element);
  if (tag === 'img' || tag === 'input') {
    collectNativeName(element, found);
    return;
  }
  collectContent(element, found, 0);
}

function collectNativeName(element, found) {
  const tag = localNameOf(element);
  if (LABELABLE.has(tag)) {
    const labels = labelsOf(element);
    for (let index = 0; index < labels.length && index < 10; index += 1) {
      collectContent(labels[index], found, 0, element);
      found.add(' ');
    }
    if (found.text.trim() || tag !== 'input') return;
    if (element.type === 'submit') found.add(element.value || 'Submit');
    else if (element.type === 'reset') found.add(element.value || 'Reset');
    else if (element.type === 'button') found.add(element.value);
    else if (element.type === 'image') found.add(attribute(element, 'alt') || attribute(element, 'title') || 'Submit');
    return;
  }
  if (tag === 'img' || tag === 'area') found.add(attribute(element, 'alt') || '');
  else if (tag === 'fieldset') collectChild(element, 'legend', found);
  else if (tag === 'table') collectChild(element, 'caption', found);
  else if (tag === 'figure') collectChild(element, 'figcaption', found);
  else if (tag === 'details') collectChild(element, 'summary', found);
  else if (tag === 'svg') collectChild(element, 'title', found);
  else if (tag === 'optgroup') found.add(attribute(element, 'label') || '');
  else if (tag === 'option') found.add(attribute(element, 'label') || textContentOf(element).slice(0, NAME_LIMIT * 4));
}

function collectChild(element, tag, found) {
  for (let node = firstChildOf(element); node; node = nextSiblingOf(node)) {
    if (isElement(node) && localNameOf(node) === tag) {
      if (tag === 'title') found.add(textContentOf(node).slice(0, NAME_LIMIT * 4));
      else collectContent(node, found, 0);
      return;
    }
  }
}

/// Collects the text inside an element. `except` is the field that a label belongs to.
function collectContent(element, found, depth, except) {
  if (depth > 60) return;
  eachPaintedChild(element, (node) => {
    found.nodes += 1;
    if (found.isFull()) return false;
    if (isText(node)) {
      found.add(lengthOf(node) > NAME_LIMIT * 4 ? CharacterData.prototype.substringData.call(node, 0, NAME_LIMIT * 4) : dataOf(node));
      return true;
    }
    if (!isElement(node) || node === except) return true;
    collectNode(node, found, depth, except);
    return true;
  });
}

function collectNode(node, found, depth, except) {
  const tag = localNameOf(node);
  if (UNREAD.has(tag) || attribute(node, 'aria-hidden') === 'true') return;
  if (!isPainted(node)) return;
  const gap = INLINE.has(tag) ? '' : ' ';
  found.add(gap);
  const label = attribute(node, 'aria-label');
  if (label && label.trim()) found.add(label);
  else if (tag === 'img' || tag === 'svg') collectNativeName(node, found);
  else if (tag === 'input' || tag === 'textarea' || tag === 'select') found.add(shownValueOf(node) || '');
  else collectContent(node, found, depth + 1, except);
  found.add(gap);
}
