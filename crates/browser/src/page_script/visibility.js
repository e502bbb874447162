// Visibility: of elements for an action, and of subtrees for reading.

const VISIBLE = { opacityProperty: true, visibilityProperty: true };

/// Returns true if the element is rendered: its content takes part in the layout.
function isPainted(element) {
  if (checkVisibility.call(element, { visibilityProperty: true })) return true;
  const style = getComputedStyle(element);
  return style.display === 'contents' && style.visibility === 'visible';
}

/// Returns the reason why nobody sees the element, or the empty string.
function hiddenReason(element) {
  const style = getComputedStyle(element);
  if (!checkVisibility.call(element, VISIBLE)) {
    if (style.display === 'contents') return '';
    const cause = nearest(element, (node) => {
      const own = getComputedStyle(node);
      return own.display === 'none' || own.opacity === '0' || own.contentVisibility === 'hidden';
    });
    if (style.visibility !== 'visible') return `visibility: ${style.visibility}`;
    if (!cause) return 'not rendered';
    const where = cause === element ? '' : ` on ${briefly(cause)}`;
    const own = getComputedStyle(cause);
    if (own.display === 'none') return `display: none${where}`;
    if (own.opacity === '0') return `opacity: 0${where}`;
    return `content-visibility: hidden${where}`;
  }
  const box = boxOf(element);
  if (box.width <= 0 || box.height <= 0) {
    const rects = getClientRects.call(element);
    for (const rect of rects) if (rect.width > 0 && rect.height > 0) return '';
    return `its size is ${Math.round(box.width)}×${Math.round(box.height)}`;
  }
  return '';
}

/// State of a subtree for a reader.
const SHOWN = 0;
const CONCEALED = 1; // Rendered, and nobody sees it: text is left out, controls are marked.
const SELF_CONCEALED = 2; // The element is invisible; its children may be visible.
const ABSENT = 3; // Not rendered.

/// Returns how an element and what is inside it show, given that what is around it shows.
function concealment(element, tag) {
  if (!checkVisibility.call(element, VISIBLE)) {
    const style = getComputedStyle(element);
    const display = style.display;
    if (display === 'none' || style.contentVisibility === 'hidden') return ABSENT;
    if (style.opacity === '0') return CONCEALED;
    if (style.visibility !== 'visible') return SELF_CONCEALED;
    if (display !== 'contents') return checkVisibility.call(element) ? CONCEALED : ABSENT;
  }
  if (attribute(element, 'aria-hidden') === 'true') return CONCEALED;
  // Boxes are dear, and only elements with one of these styles are clipped away or out of reach.
  if (TABLE_PARTS.has(tag)) return SHOWN;
  const style = getComputedStyle(element);
  const position = style.position;
  const isFree = position === 'absolute' || position === 'fixed';
  if (!isFree && style.overflowX === 'visible') return SHOWN;
  const box = boxOf(element);
  if (box.width <= 1 || box.height <= 1) {
    const isClipped = style.overflow !== 'visible' || style.clipPath !== 'none' || (isFree && style.clip !== 'auto');
    return isClipped && element !== document.body && style.display !== 'contents' ? CONCEALED : SHOWN;
  }
  if (isFree && style.clip === 'rect(0px, 0px, 0px, 0px)') return CONCEALED;
  if (box.right + scrollX <= 0 || box.bottom + scrollY <= 0) return isOutOfReach(element, box) ? CONCEALED : SHOWN;
  return SHOWN;
}

const TABLE_PARTS = new Set(['table', 'caption', 'colgroup', 'col', 'thead', 'tbody', 'tfoot', 'tr', 'td', 'th', 'option']);

/// Returns true if no scrolling brings the box into view.
function isOutOfReach(element, box) {
  let right = box.right + scrollX;
  let bottom = box.bottom + scrollY;
  for (let node = paintedParentOf(element); node; node = paintedParentOf(node)) {
    if (node === document.documentElement || node === document.body) break;
    right += node.scrollLeft;
    bottom += node.scrollTop;
  }
  return right <= 0 || bottom <= 0;
}

/// Returns true if text directly inside an element of this style shows nothing.
function isTextInvisible(style) {
  return style.fontSize === '0px' || style.contentVisibility === 'hidden' || (style.color === 'rgba(0, 0, 0, 0)' && style.webkitTextFillColor === 'rgba(0, 0, 0, 0)' && style.backgroundClip !== 'text');
}

/// Returns true if a text node has more than spaces, as far as its beginning tells.
function showsLetters(node) {
  return lengthOf(node) > 200 || /\S/.test(dataOf(node));
}

/// Returns an element as a short tag with its first words: `<div class=overlay> "Cookie notice"`.
function briefly(element) {
  const parts = [localNameOf(element).slice(0, 40)];
  const id = attribute(element, 'id');
  const classes = attribute(element, 'class');
  if (id) parts.push(`id=${oneLine(id, 40)}`);
  else if (classes && classes.trim()) parts.push(`class=${oneLine(classes.trim().slice(0, 200).split(/\s+/)[0], 40)}`);
  const name = nameOf(element, 'button');
  return `<${parts.join(' ')}>${name ? ` "${oneLine(name, 60)}"` : ''}`;
}
