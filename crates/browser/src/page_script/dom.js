// Access to nodes that a page cannot redirect: a form with a control named "parentNode" answers
// `form.parentNode` with that control, so generic code goes through the prototypes' own getters.

const getterOf = (prototype, name) => {
  const { get } = Object.getOwnPropertyDescriptor(prototype, name);
  return (node) => get.call(node);
};
const parentOf = getterOf(Node.prototype, 'parentNode');
const firstChildOf = getterOf(Node.prototype, 'firstChild');
const nextSiblingOf = getterOf(Node.prototype, 'nextSibling');
const nodeTypeOf = getterOf(Node.prototype, 'nodeType');
const isConnected = getterOf(Node.prototype, 'isConnected');
const textContentOf = getterOf(Node.prototype, 'textContent');
const localNameOf = getterOf(Element.prototype, 'localName');
const shadowRootOf = getterOf(Element.prototype, 'shadowRoot');
const assignedSlotOf = getterOf(Element.prototype, 'assignedSlot');
const idOf = getterOf(Element.prototype, 'id');
const attributesOf = getterOf(Element.prototype, 'attributes');
const dataOf = getterOf(CharacterData.prototype, 'data');
const lengthOf = getterOf(CharacterData.prototype, 'length');
const { getAttribute, hasAttribute, matches, getBoundingClientRect, getClientRects, checkVisibility, scrollIntoView } = Element.prototype;

const attribute = (element, name) => getAttribute.call(element, name);
const has = (element, name) => hasAttribute.call(element, name);
const isMatch = (element, selector) => matches.call(element, selector);
const boxOf = (element) => getBoundingClientRect.call(element);

const isElement = (node) => node !== null && node !== undefined && nodeTypeOf(node) === 1;
const isText = (node) => nodeTypeOf(node) === 3;

/// The parent as it is painted: the slot of a slotted node, the host of a shadow root.
function paintedParentOf(node) {
  if (nodeTypeOf(node) === 1) {
    const slot = assignedSlotOf(node);
    if (slot) return slot;
  }
  const parent = parentOf(node);
  if (parent && nodeTypeOf(parent) === 11) return parent.host || null;
  return parent && nodeTypeOf(parent) === 1 ? parent : null;
}

/// The first node that is painted inside an element, and a function for the one after it.
function paintedChildren(element) {
  if (localNameOf(element) === 'slot') {
    const assigned = HTMLSlotElement.prototype.assignedNodes.call(element);
    if (assigned.length > 0) return assigned;
  }
  return null;
}

/// Calls `visit` with each painted child until it returns false. Returns false if it did.
function eachPaintedChild(element, visit) {
  const assigned = paintedChildren(element);
  if (assigned) {
    for (const node of assigned) if (visit(node) === false) return false;
    return true;
  }
  for (let node = firstChildOf(shadowRootOf(element) || element); node; node = nextSiblingOf(node)) {
    if (visit(node) === false) return false;
  }
  return true;
}

/// Returns true if `inner` is `outer` or painted inside it.
function isInside(inner, outer) {
  for (let node = inner; node; node = paintedParentOf(node)) if (node === outer) return true;
  return false;
}

/// The nearest element at or above `element` for which `test` holds.
function nearest(element, test) {
  for (let node = element; node; node = paintedParentOf(node)) if (test(node)) return node;
  return null;
}

/// The innermost element at a point of the viewport, through open shadow roots.
function elementAt(x, y) {
  let found = null;
  let root = document;
  while (root) {
    const inner = root.elementFromPoint(x, y);
    if (!inner || inner === found) return found;
    found = inner;
    root = shadowRootOf(inner);
  }
  return found;
}

/// Resolves at the next animation frame. Frames that are not painted have none, so time helps out.
function nextFrame() {
  return new Promise((resolve) => {
    requestAnimationFrame(() => resolve());
    setTimeout(resolve, 100);
  });
}

/// Calls `visit` with every element of the document, open shadow roots included, until it returns false.
function eachElement(visit) {
  const open = [document];
  while (open.length > 0) {
    const walker = document.createTreeWalker(open.pop(), NodeFilter.SHOW_ELEMENT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (visit(node) === false) return;
      const shadow = shadowRootOf(node);
      if (shadow) open.push(shadow);
    }
  }
}

/// Returns the numbers of the elements that contain frames.
function frameElements() {
  const found = [];
  eachElement((element) => {
    const tag = localNameOf(element);
    if (tag === 'iframe' || tag === 'frame') found.push(numberOf(element));
    return found.length < 200;
  });
  return found;
}
