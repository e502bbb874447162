// Actionability: whether an action may go ahead, tried again on every frame until its time is over.

const NEEDS = {
  click: { visible: true, stable: true, enabled: true, hit: true },
  hover: { visible: true, stable: true, hit: true },
  type: { visible: true, enabled: true, editable: true },
  select: { visible: true, enabled: true },
  files: { enabled: true },
  scroll: { stable: true },
  submit: {},
};

const ALIGNMENTS = ['center', 'end', 'start', 'nearest'];

/// Waits until the element of a selector can take an action, at most `limit` milliseconds.
///
/// Resolves to the number of the element and the point at which the pointer reaches it, in the
/// viewport of this frame, or to the last reason why not.
async function ready(selector, action, limit) {
  const needs = NEEDS[action];
  const end = performance.now() + limit;
  let before = null;
  let tries = 0;
  let wasNew = false;
  for (;;) {
    const found = pick(selector);
    if (found.problem === 'invalid' || found.problem === 'many' || found.problem === 'unknown') return { ...found, ok: false };
    let result;
    if (found.element) {
      wasNew = wasNew || found.isNew;
      result = look(found.element, needs, before, tries);
      before = result.box || null;
      if (result.ok) {
        const number = numberOf(found.element);
        if (action === 'click') armGuard(result.target);
        return { ok: true, number, x: result.x, y: result.y, isNew: wasNew, waited: tries };
      }
    } else {
      before = null;
      result = { reason: found.problem === 'gone' ? found.detail : 'nothing matches' };
    }
    // One look is never enough: it has nothing to compare the box with, and says "moving".
    if (performance.now() >= end && tries > 0) {
      return { ok: false, problem: found.element ? 'not_ready' : found.problem, reason: result.reason, detail: found.detail || '' };
    }
    tries += 1;
    await nextFrame();
  }
}

/// Returns the point to act at, or the reason why the element cannot be acted on now.
function look(element, needs, before, tries) {
  const target = needs.hit ? standIn(element) : element;
  if (needs.visible) {
    const reason = hiddenReason(target);
    if (reason) return { reason: `not visible: ${reason}` };
  }
  if (needs.enabled) {
    const off = nearest(element, (node) => isMatch(node, ':disabled') || attribute(node, 'aria-disabled') === 'true');
    if (off) return { reason: off === element ? 'disabled' : `disabled by ${briefly(off)}` };
    const inert = nearest(element, (node) => has(node, 'inert'));
    if (inert) return { reason: `inert by ${briefly(inert)}` };
  }
  if (needs.editable) {
    const reason = notEditableReason(element);
    if (reason) return { reason };
  }
  if (!needs.stable) return { ok: true, x: 0, y: 0, target };
  const rect = boxOf(target);
  const box = [rect.x, rect.y, rect.width, rect.height];
  if (!before || box.some((side, index) => side !== before[index])) {
    // The element is brought into view before its box is compared, since that moves it.
    if (!before && needs.hit && bringIntoView(target, tries)) return { reason: 'moving', box: boxNow(target) };
    return { reason: 'moving', box };
  }
  if (!needs.hit) return { ok: true, x: 0, y: 0, target };
  const reached = reachablePoint(target);
  if (reached.ok) return { ok: true, x: reached.x, y: reached.y, target };
  // Something that sticks to an edge covers one alignment and not the next.
  if (tries > 1 && tries % 4 === 0) bringIntoView(target, tries / 4, true);
  return { reason: reached.reason, box: boxNow(target) };
}

function boxNow(element) {
  const rect = boxOf(element);
  return [rect.x, rect.y, rect.width, rect.height];
}

/// The label that is painted in place of a hidden checkbox or file input, else the element itself.
function standIn(element) {
  if (localNameOf(element) !== 'input' || !['checkbox', 'radio', 'file'].includes(element.type)) return element;
  if (!hiddenReason(element)) return element;
  for (const label of element.labels || []) if (!hiddenReason(label)) return label;
  return element;
}

const UNTYPED = new Set(['button', 'submit', 'reset', 'image', 'checkbox', 'radio', 'hidden', 'file']);

function notEditableReason(element) {
  const tag = localNameOf(element);
  if (tag === 'textarea' || tag === 'input') {
    if (tag === 'input' && UNTYPED.has(element.type)) return `not editable: an input of type ${element.type} takes no text`;
    if (element.readOnly) return 'not editable: readonly';
    return attribute(element, 'aria-readonly') === 'true' ? 'not editable: aria-readonly' : '';
  }
  if (element.isContentEditable === true) return '';
  return `not editable: <${localNameOf(element).slice(0, 40)}> is no field`;
}

/// Scrolls the element into view if a part of it is outside, or always. Returns true if it scrolled.
function bringIntoView(element, tries, always = false) {
  const { x, y, width, height } = boxOf(element);
  const isInView = y >= 0 && x >= 0 && y + height <= innerHeight && x + width <= innerWidth;
  if (isInView && !always && isUnclipped(element)) return false;
  const block = ALIGNMENTS[Math.floor(tries) % ALIGNMENTS.length];
  scrollIntoView.call(element, { block, inline: 'nearest', behavior: 'instant' });
  return true;
}

/// Returns true if the element's middle is inside every scrolling element around it.
function isUnclipped(element) {
  const box = boxOf(element);
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  for (let node = paintedParentOf(element); node && node !== document.body; node = paintedParentOf(node)) {
    if (node.scrollHeight > node.clientHeight + 1 || node.scrollWidth > node.clientWidth + 1) {
      if (getComputedStyle(node).overflow === 'visible') continue;
      const outer = boxOf(node);
      if (x < outer.left || x > outer.right || y < outer.top || y > outer.bottom) return false;
    }
  }
  return true;
}

/// Returns a point of the element at which the pointer hits it, the middle if possible.
function reachablePoint(element) {
  const rects = [];
  for (const rect of getClientRects.call(element)) {
    const left = Math.max(rect.left, 0);
    const top = Math.max(rect.top, 0);
    const right = Math.min(rect.right, innerWidth);
    const bottom = Math.min(rect.bottom, innerHeight);
    if (right > left && bottom > top) rects.push({ left, top, width: right - left, height: bottom - top });
    if (rects.length >= 4) break;
  }
  if (rects.length === 0) {
    const child = element.firstElementChild;
    if (child && getComputedStyle(element).display === 'contents') return reachablePoint(child);
    return { reason: 'outside the viewport, and scrolling does not bring it in' };
  }
  let cover = null;
  for (const { left, top, width, height } of rects) {
    for (const [across, down] of [[0.5, 0.5], [0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]]) {
      const x = left + width * across;
      const y = top + height * down;
      const hit = elementAt(x, y);
      if (hit && reaches(hit, element)) return { ok: true, x, y };
      cover = cover || hit;
    }
  }
  return { reason: cover ? `covered by ${coverName(cover, element)}` : 'nothing is painted at its place' };
}

/// Names the outermost element that covers and does not contain the target.
function coverName(cover, element) {
  let outermost = cover;
  for (let node = paintedParentOf(cover); node && node !== document.body && !isInside(element, node); node = paintedParentOf(node)) outermost = node;
  return briefly(outermost);
}

/// Returns the reason why a point of this frame does not lie on the frame element of that number.
function frameCover(number, x, y) {
  const found = resolveNumber(number);
  if (!found.element) return { reason: 'its frame has left the page' };
  const hit = elementAt(x, y);
  if (hit && isInside(hit, found.element)) return { reason: '' };
  return { reason: hit ? `covered by ${coverName(hit, found.element)}` : 'its frame is outside the viewport' };
}
