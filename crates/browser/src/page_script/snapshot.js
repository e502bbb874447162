// Snapshot: the page as lines of role, name, states and value, in the order of the painted tree.

const NODE_LIMIT = 200_000;
const LINE_LIMIT = 20_000;
const TIME_LIMIT = 4000; // Milliseconds.
const DEPTH_LIMIT = 700;

const HIDDEN = 1;
const MUTED = 2; // Text belongs to the name of a line above.
const POINTER = 4; // An element above shows the hand of something to click.
const INERT = 8;

const LANDMARKS = new Set(['banner', 'main', 'navigation', 'contentinfo', 'complementary', 'region', 'search', 'form']);
const CONTAINERS = new Set(
  `list table grid treegrid tree tablist menu menubar toolbar radiogroup dialog alertdialog article feed log status
   alert tooltip tabpanel iframe video audio`.split(/\s+/),
);
const IF_NAMED = new Set(['group', 'figure', 'img', 'math', 'progressbar', 'meter', 'timer', 'application', 'marquee']);
const WITHOUT_REFERENCE = new Set(['heading', 'row', 'listitem', 'img', 'math', 'status', 'alert', 'article', 'progressbar', 'meter', 'tooltip']);
const CLICKABLE_ROLES = new Set(['row', 'listitem', 'img', 'article']);
const CELLS = new Set(['cell', 'gridcell', 'columnheader', 'rowheader']);
const CHILDLESS = new Set(['select', 'textarea', 'input', 'iframe', 'frame', 'svg', 'img', 'video', 'audio', 'math']);

class Walk {
  constructor(scope) {
    this.scope = scope;
    this.scopeStart = -1;
    this.scopeEnd = -1;
    this.lines = [];
    this.nodes = 0;
    this.text = '';
    this.collector = null;
    this.stopped = '';
    this.started = performance.now();
  }

  run(root) {
    const top = root || document.body || document.documentElement;
    labelsByRoot = new Map();
    try {
      if (top) this.element(top, 0, 0);
      this.flush(0);
    } finally {
      labelsByRoot = null;
    }
    for (const line of this.lines) if (line.collected) line.name = oneLine(line.collected);
    assign(this.lines, !root && !this.stopped);
    return this;
  }

  goesOn() {
    if (this.stopped) return false;
    this.nodes += 1;
    if (this.nodes > NODE_LIMIT) this.stopped = `after ${NODE_LIMIT} nodes`;
    else if (this.lines.length > LINE_LIMIT) this.stopped = `after ${LINE_LIMIT} lines`;
    else if ((this.nodes & 127) === 0 && performance.now() - this.started > TIME_LIMIT) this.stopped = `after ${TIME_LIMIT} ms`;
    return !this.stopped;
  }

  children(element, depth, flags, level) {
    let isShown = null;
    eachPaintedChild(element, (node) => {
      const type = nodeTypeOf(node);
      if (type === 1) this.element(node, depth, flags, level + 1);
      else if (type === 3 && !(flags & (HIDDEN | MUTED)) && this.goesOn()) {
        if (isShown === null && lengthOf(node) > 0 && showsLetters(node)) isShown = !isTextInvisible(getComputedStyle(element));
        if (isShown !== false) this.addText(node);
      }
      return !this.stopped;
    });
  }

  addText(node) {
    if (this.text.length > NAME_LIMIT * 8) return;
    this.text += lengthOf(node) > NAME_LIMIT * 8 ? CharacterData.prototype.substringData.call(node, 0, NAME_LIMIT * 8) : dataOf(node);
  }

  /// Ends the present run of text, as a line or as a part of the row or item around it.
  flush(depth) {
    if (this.text === '') return;
    const text = oneLine(this.text);
    this.text = '';
    if (text === '') return;
    const row = this.collector;
    if (!row) {
      this.lines.push({ depth, role: '', name: text, states: '', value: null, wants: false });
      return;
    }
    if (row.collected.length < NAME_LIMIT * 2) {
      const gap = row.collected === '' ? '' : row.isNewCell ? ' | ' : ' ';
      row.collected += gap + text;
    }
    row.isNewCell = false;
  }

  element(element, depth, flags, level = 0) {
    if (!this.goesOn()) return;
    if (level > DEPTH_LIMIT) {
      this.stopped = `at ${DEPTH_LIMIT} elements inside each other`;
      return;
    }
    const tag = localNameOf(element);
    if (tag === 'br') {
      this.text += ' ';
      return;
    }
    if (UNREAD.has(tag)) return;
    let inner = flags;
    const shows = concealment(element, tag);
    if (shows === ABSENT) {
      // A control of the page's own making often stands for a file input that is not rendered.
      if (tag === 'input' && element.type === 'file') this.line(element, depth, 'file', HIDDEN);
      return;
    }
    if (shows === CONCEALED) inner |= HIDDEN;
    if (has(element, 'inert')) inner |= INERT;
    const own = shows === SELF_CONCEALED ? inner | HIDDEN : inner;
    const isScope = element === this.scope;
    const isBlock = !INLINE.has(tag);
    if (isBlock || isScope) this.flush(depth);
    if (isScope) this.scopeStart = this.lines.length;
    this.emit(element, tag, depth, inner, own, level);
    if (isBlock || isScope) this.flush(depth);
    if (isScope) this.scopeEnd = this.lines.length;
  }

  emit(element, tag, depth, inner, own, level) {
    const role = roleOf(element);
    if (CELLS.has(role) && this.collector && this.collector.role === 'row') this.collector.isNewCell = true;
    if (INTERACTIVE.has(role)) return this.control(element, tag, role, depth, inner, own, level);
    if (tag === 'details' && !has(element, 'open')) return this.summary(element, depth, own, level);
    if (!role || role === 'generic') {
      if (this.isClickable(element, tag, inner, own)) return this.clickable(element, depth, inner, own, level);
      const isTold = tag === 'caption' || tag === 'legend' || (tag === 'label' && element.control && isPainted(element.control));
      // Text of an invisible element is left out; elements inside may be visible again.
      return this.children(element, depth, isTold ? own | MUTED : own, level);
    }
    if (own & HIDDEN) return this.children(element, depth, own, level);
    const isLine =
      role === 'heading' || role === 'row' || role === 'listitem' || CONTAINERS.has(role) || LANDMARKS.has(role) || IF_NAMED.has(role);
    if (!isLine || (role === 'heading' && inner & MUTED)) return this.children(element, depth, inner, level);
    const name = role === 'row' || role === 'listitem' ? '' : nameOf(element, role);
    if (name === '' && (IF_NAMED.has(role) || role === 'heading' || role === 'form')) return CHILDLESS.has(tag) ? undefined : this.children(element, depth, inner, level);
    this.flush(depth);
    const line = this.line(element, depth, role, inner, name);
    const outer = this.collector;
    if (role === 'row' || role === 'listitem') {
      line.collected = '';
      this.collector = line;
    } else if (role !== 'heading' && role !== 'img') this.collector = null;
    if (CLICKABLE_ROLES.has(role) && this.isClickable(element, tag, inner, own)) {
      line.wants = true;
      line.states = line.states ? `${line.states}, clickable` : 'clickable';
      inner |= POINTER;
    }
    if (!CHILDLESS.has(tag)) this.children(element, depth + 1, role === 'heading' ? inner | MUTED : inner, level);
    this.flush(depth + 1);
    this.collector = outer;
    const isEmpty = this.lines[this.lines.length - 1] === line && !line.name && !line.collected && !line.value && !line.states;
    if (isEmpty && !CHILDLESS.has(tag)) this.lines.pop();
  }

  /// Visits what a closed `details` shows of itself.
  summary(element, depth, flags, level) {
    for (let node = firstChildOf(element); node; node = nextSiblingOf(node)) {
      if (isElement(node) && localNameOf(node) === 'summary') return this.element(node, depth, flags, level + 1);
    }
    return undefined;
  }

  /// Adds the line of something to click, to type into or to choose.
  control(element, tag, role, depth, inner, own, level) {
    this.flush(depth);
    this.line(element, depth, role, own);
    if (CHILDLESS.has(tag)) return;
    const isNamedByContent = NAMED_BY_CONTENT.has(role) || isEditingHost(element);
    const outer = this.collector;
    if (!isNamedByContent) this.collector = null;
    this.children(element, depth + 1, isNamedByContent ? inner | MUTED : inner, level);
    this.flush(depth + 1);
    this.collector = outer;
  }

  isClickable(element, tag, inner, own) {
    if (inner & MUTED || own & HIDDEN || tag === 'body' || tag === 'html' || tag === 'label' || tag === 'option') return false;
    if (has(element, 'onclick')) return true;
    const tabindex = attribute(element, 'tabindex');
    if (tabindex !== null && Number(tabindex) >= 0) return true;
    if (inner & POINTER) return false;
    return getComputedStyle(element).cursor === 'pointer';
  }

  /// Adds the line of an element without a role that reacts to clicks.
  clickable(element, depth, inner, own, level) {
    const found = new NameText();
    collectContent(element, found, 0);
    const name = oneLine(found.text);
    const isShort = name.length <= 80;
    this.flush(depth);
    const line = this.line(element, depth, 'clickable', own, isShort ? name || nameOf(element, '') : nameOf(element, ''));
    this.children(element, depth + 1, inner | POINTER | (isShort ? MUTED : 0), level);
    this.flush(depth + 1);
    const isBare = line.name === '' && this.lines[this.lines.length - 1] === line && !has(element, 'onclick');
    if (isBare && element.childElementCount === 0 && boxOf(element).width < 4) this.lines.pop();
  }

  line(element, depth, role, flags, name = nameOf(element, role)) {
    const states = statesOf(element, role);
    if (role === 'heading') states.unshift(attribute(element, 'aria-level') || (localNameOf(element)[1] > 0 ? localNameOf(element)[1] : '2'));
    if (flags & HIDDEN) states.push('hidden');
    if (flags & INERT) states.push('inert');
    const tag = localNameOf(element);
    if (tag === 'select') states.push(optionsOf(element));
    const line = {
      depth,
      element,
      role,
      name,
      states: states.join(', '),
      value: FIELDS.has(tag) || !CONTAINERS.has(role) ? shownValueOf(element) : null,
      wants: !WITHOUT_REFERENCE.has(role),
      context: this.collector,
      number: 0,
    };
    this.lines.push(line);
    return line;
  }
}

/// Returns the lines of the document, or those of one element.
function snapshot(scopeNumber) {
  const started = performance.now();
  let scope = null;
  if (scopeNumber) {
    const found = resolveNumber(scopeNumber);
    if (!found.element) return { problem: found.problem, detail: found.detail };
    scope = found.element;
  }
  let walk = new Walk(scope).run();
  let lines = walk.lines;
  if (scope && walk.scopeEnd < 0) {
    // The limits were reached before the element, or nothing of it is rendered.
    walk = new Walk(scope).run(scope);
    lines = walk.lines;
  } else if (scope) lines = lines.slice(walk.scopeStart, walk.scopeEnd);
  const page = document.scrollingElement || document.documentElement;
  return {
    lines: lines.map((line) => [line.depth, line.number || 0, line.role, line.name, line.states, line.value]),
    stopped: walk.stopped,
    next: nextNumber,
    title: oneLine(document.title),
    url: location.href.slice(0, 2000),
    document: performance.timeOrigin,
    scrolled: page ? Math.round(page.scrollTop) : 0,
    height: page ? page.scrollHeight : 0,
    viewport: innerHeight,
    elapsed: performance.now() - started,
  };
}
