// Reading: a page or an element as text or as HTML, one bounded part at a time.

const READ_NODES = 2_000_000;
const READ_TIME = 4000; // Milliseconds.

/// Collects the characters from `offset` on, at most `limit`, and counts those before.
class Part {
  constructor(offset, limit) {
    this.offset = offset;
    this.end = offset + limit;
    this.length = 0;
    this.kept = [];
    this.nodes = 0;
    this.started = performance.now();
    this.stopped = '';
  }

  goesOn() {
    this.nodes += 1;
    if (this.nodes > READ_NODES) this.stopped = `after ${READ_NODES} nodes`;
    else if ((this.nodes & 255) === 0 && performance.now() - this.started > READ_TIME) this.stopped = `after ${READ_TIME} ms`;
    return this.length <= this.end && !this.stopped;
  }

  add(text) {
    const start = this.length;
    this.length += text.length;
    if (this.length <= this.offset || start >= this.end) return;
    this.kept.push(text.slice(Math.max(0, this.offset - start), this.end - start));
  }

  answer() {
    const isFinished = this.length <= this.end && !this.stopped;
    const text = visibleText(this.kept.join(''));
    return { text, next: isFinished ? null : Math.min(this.end, this.length), total: isFinished ? this.length : null, stopped: this.stopped };
  }
}

class TextReader {
  constructor(part, withLinks) {
    this.part = part;
    this.withLinks = withLinks;
    this.gap = ''; // What comes before the next word, if one comes.
    this.isEmpty = true;
  }

  space(gap) {
    const order = ['', ' ', ' | ', '\n', '\n\n'];
    if (order.indexOf(gap) > order.indexOf(this.gap)) this.gap = gap;
  }

  write(text, isPlain) {
    if (text === '') return;
    let rest = text;
    if (!isPlain) {
      rest = text.replace(/\s+/g, ' ');
      if (rest.startsWith(' ')) this.space(' ');
      const words = rest.trim();
      const endsOpen = rest.endsWith(' ') && words !== '';
      if (words === '') return;
      this.put(words);
      if (endsOpen) this.space(' ');
      return;
    }
    this.put(rest);
  }

  put(text) {
    if (!this.isEmpty && this.gap) this.part.add(this.gap);
    this.gap = '';
    this.isEmpty = false;
    this.part.add(text);
  }

  visit(element, level, isPlain) {
    let isShown = null;
    eachPaintedChild(element, (node) => {
      if (!this.part.goesOn()) return false;
      if (isText(node)) {
        if (isShown === null && showsLetters(node)) isShown = !isTextInvisible(getComputedStyle(element));
        if (isShown !== false) this.readText(node, isPlain);
      } else if (isElement(node)) this.element(node, level + 1, isPlain);
      return true;
    });
  }

  readText(node, isPlain) {
    const room = this.part.end - this.part.length + 1;
    const { part } = this;
    // What lies behind the part is not copied out of the page.
    const isLong = lengthOf(node) > Math.max(room * 4, 100_000);
    this.write(isLong && part.offset <= part.length ? CharacterData.prototype.substringData.call(node, 0, Math.max(room * 4, 100_000)) : dataOf(node), isPlain);
  }

  element(element, level, isPlain) {
    const tag = localNameOf(element);
    if (tag === 'br') return this.space('\n');
    if (UNREAD.has(tag) || tag === 'svg' || level > DEPTH_LIMIT) return undefined;
    const shows = concealment(element, tag);
    if (shows === ABSENT || shows === CONCEALED) return undefined;
    if (shows === SELF_CONCEALED) return this.visibleInside(element, level, isPlain);
    if (tag === 'img') {
      const alt = oneLine(attribute(element, 'alt') || '');
      return alt ? this.write(`[image: ${alt}]`) : undefined;
    }
    if (FIELDS.has(tag)) {
      const value = tag === 'input' && ['submit', 'button', 'reset'].includes(element.type) ? element.value : shownValueOf(element);
      return value ? this.write(`[${oneLine(value)}]`) : undefined;
    }
    if (CHILDLESS.has(tag)) return undefined;
    const gap = INLINE.has(tag) ? '' : GAPS[tag] || '\n';
    this.space(gap);
    if (tag === 'li') this.put('- ');
    else if (/^h[1-6]$/.test(tag)) this.put(`${'#'.repeat(Number(tag[1]))} `);
    if (tag === 'details' && !has(element, 'open')) {
      collectClosed(this, element, level);
    } else this.visit(element, level, isPlain || tag === 'pre');
    if (tag === 'a' && this.withLinks && has(element, 'href')) {
      const href = String(element.href);
      if (/^https?:/.test(href)) this.write(` (${oneLine(href, 300)})`);
    }
    return this.space(gap);
  }

  /// Reads elements that are visible again inside an invisible one.
  visibleInside(element, level, isPlain) {
    eachPaintedChild(element, (node) => {
      if (!this.part.goesOn()) return false;
      if (isElement(node)) this.element(node, level + 1, isPlain);
      return true;
    });
  }
}

const GAPS = {
  p: '\n\n', h1: '\n\n', h2: '\n\n', h3: '\n\n', h4: '\n\n', h5: '\n\n', h6: '\n\n', ul: '\n\n', ol: '\n\n', table: '\n\n', pre: '\n\n',
  blockquote: '\n\n', section: '\n\n', article: '\n\n', td: ' | ', th: ' | ', button: ' ',
};

function collectClosed(reader, element, level) {
  for (let node = firstChildOf(element); node; node = nextSiblingOf(node)) {
    if (isElement(node) && localNameOf(node) === 'summary') return reader.element(node, level + 1, false);
  }
  return undefined;
}

/// Returns a part of the readable text of an element, or of the page for number 0.
function text(number, { links, offset, limit, heading }) {
  const root = number ? attached(number) : document.body || document.documentElement;
  if (number && !root) return gone(number);
  const part = new Part(offset, limit);
  if (heading) part.add(heading);
  if (root) new TextReader(part, links).element(root, 0, false);
  return part.answer();
}

const VOID = new Set(['area', 'base', 'br', 'col', 'embed', 'hr', 'img', 'input', 'link', 'meta', 'source', 'track', 'wbr']);
const EMPTIED = new Set(['script', 'style', 'noscript', 'template', 'svg', 'object']);
const ATTRIBUTE_LIMIT = 500;

function escapeHtml(text, isAttribute) {
  const escaped = text.replace(/&/g, '&amp;').replace(/</g, '&lt;');
  return isAttribute ? escaped.replace(/"/g, '&quot;') : escaped.replace(/>/g, '&gt;');
}

function openTag(element, tag) {
  let open = `<${tag}`;
  const list = attributesOf(element);
  for (let index = 0; index < list.length && index < 100; index += 1) {
    const { name, value } = list[index];
    if (name.startsWith('on') || name === 'nonce' || name === 'integrity' || name === 'srcset' || name === 'style') continue;
    if (name === 'value' && isSecret(element)) continue;
    let shown = value;
    if (/^\s*data:/i.test(value)) shown = `data:… (${value.length} characters)`;
    else if (value.length > ATTRIBUTE_LIMIT) shown = `${value.slice(0, ATTRIBUTE_LIMIT)}…`;
    open += ` ${name.slice(0, 100)}="${escapeHtml(shown, true)}"`;
  }
  return `${open}>`;
}

function writeHtml(element, part, level) {
  if (!part.goesOn()) return;
  const tag = localNameOf(element);
  part.add(openTag(element, tag));
  if (VOID.has(tag)) return;
  if (level > DEPTH_LIMIT) part.add('…');
  else if (!EMPTIED.has(tag) && !(tag === 'textarea' && isSecret(element))) {
    const shadow = shadowRootOf(element);
    if (shadow) {
      part.add('<template shadowrootmode="open">');
      writeChildren(shadow, part, level, false);
      part.add('</template>');
    }
    writeChildren(element, part, level, tag === 'pre' || tag === 'textarea');
  }
  part.add(`</${tag}>`);
}

function writeChildren(parent, part, level, isPlain) {
  for (let node = firstChildOf(parent); node && part.goesOn(); node = nextSiblingOf(node)) {
    if (isElement(node)) writeHtml(node, part, level + 1);
    else if (isText(node)) {
      const data = lengthOf(node) > 1_000_000 && part.offset <= part.length ? CharacterData.prototype.substringData.call(node, 0, 1_000_000) : dataOf(node);
      part.add(escapeHtml(isPlain ? data : data.replace(/\s+/g, ' ')));
    }
  }
}

/// Returns a part of the cleaned HTML of an element, or of the page for number 0.
function html(number, { offset, limit }) {
  const root = number ? attached(number) : document.documentElement;
  if (number && !root) return gone(number);
  const part = new Part(offset, limit);
  if (root) writeHtml(root, part, 0);
  return part.answer();
}
