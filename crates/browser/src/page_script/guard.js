// Guard: watches where the events of one click arrive, and stops them when it is not the target.

const CLICK_EVENTS = ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'dblclick', 'auxclick', 'contextmenu'];
let guard = null;

function armGuard(element) {
  disarmGuard();
  const state = { element, pressed: false, clicked: false, blocked: '', replaced: false, stayed: false, end: null };
  const listen = (event) => {
    if (!event.isTrusted) return;
    const hit = event.composedPath()[0];
    const isHit = isElement(hit) && reaches(hit, element);
    const { type } = event;
    if (type === 'pointerdown' && !isHit && !state.pressed) state.blocked = isElement(hit) ? briefly(hit) : 'the page itself';
    if (state.blocked) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    if (type === 'mousedown' && isHit) {
      state.pressed = true;
      // A page that swaps the element while it handles the press has seen it. One that swaps it
      // later, before the release, has seen no click.
      window.addEventListener('mousedown', () => queueMicrotask(() => { state.stayed = isConnected(element); }), { once: true });
    }
    if ((type === 'click' || type === 'auxclick' || type === 'contextmenu') && isHit) state.clicked = true;
    if (type === 'mouseup' && state.pressed && state.stayed && !isConnected(element)) state.replaced = true;
  };
  for (const type of CLICK_EVENTS) window.addEventListener(type, listen, { capture: true });
  // A guard whose click never comes must not stand in the way of a later one.
  const timer = setTimeout(() => { if (guard === state) disarmGuard(); }, 3000);
  state.end = () => {
    clearTimeout(timer);
    for (const type of CLICK_EVENTS) window.removeEventListener(type, listen, { capture: true });
  };
  guard = state;
}

function disarmGuard() {
  if (guard) guard.end();
  guard = null;
}

/// Returns what the guard has seen, and ends it.
function guarded() {
  if (!guard) return { isKnown: false };
  const { pressed, clicked, blocked, replaced } = guard;
  disarmGuard();
  return { isKnown: true, pressed, clicked, blocked, replaced: replaced && !clicked };
}

/// Returns true if an event at `hit` acts on `target`: inside it, or on a label of it.
function reaches(hit, target) {
  if (isInside(hit, target)) return true;
  const label = nearest(hit, (node) => localNameOf(node) === 'label');
  return label !== null && label.control !== null && label.control === target;
}
