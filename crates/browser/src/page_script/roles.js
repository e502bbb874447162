// Roles: of the attribute, or those that HTML gives to its elements.

const KNOWN_ROLES = new Set(
  `alert alertdialog application article banner blockquote button caption cell checkbox code columnheader
   combobox complementary contentinfo definition deletion dialog directory document emphasis feed figure form
   generic grid gridcell group heading img insertion link list listbox listitem log main marquee math menu
   menubar menuitem menuitemcheckbox menuitemradio meter navigation none note option paragraph presentation
   progressbar radio radiogroup region row rowgroup rowheader scrollbar search searchbox separator slider
   spinbutton status strong subscript superscript switch tab table tablist tabpanel term textbox time timer
   toolbar tooltip tree treegrid treeitem image`.split(/\s+/),
);

const INTERACTIVE = new Set(
  `button link textbox searchbox checkbox radio combobox listbox option menuitem menuitemcheckbox
   menuitemradio tab treeitem switch slider spinbutton scrollbar gridcell-interactive file color date`.split(/\s+/),
);

const INPUT_ROLES = {
  button: 'button', submit: 'button', reset: 'button', image: 'button', checkbox: 'checkbox', radio: 'radio',
  range: 'slider', number: 'spinbutton', search: 'searchbox', file: 'file', color: 'color', date: 'date',
  'datetime-local': 'date', month: 'date', week: 'date', time: 'date',
};

const TAG_ROLES = {
  article: 'article', aside: 'complementary', button: 'button', dd: 'definition', dialog: 'dialog', dt: 'term', fieldset: 'group', figure: 'figure', h1: 'heading', h2: 'heading',
  h3: 'heading', h4: 'heading', h5: 'heading', h6: 'heading', hr: 'separator', iframe: 'iframe', frame: 'iframe',
  li: 'listitem', main: 'main', math: 'math', menu: 'list', meter: 'meter', nav: 'navigation', ol: 'list',
  optgroup: 'group', option: 'option', output: 'status', progress: 'progressbar', search: 'search',
  summary: 'button', table: 'table', td: 'cell', textarea: 'textbox', th: 'columnheader', tr: 'row', ul: 'list',
  dl: 'list', video: 'video', audio: 'audio',
};

/// Sections of the page and parts of articles are no landmarks.
const SECTIONING = new Set(['article', 'aside', 'main', 'nav', 'section']);

function isInSection(element) {
  for (let node = parentOf(element); isElement(node); node = parentOf(node)) {
    if (SECTIONING.has(localNameOf(node))) return true;
  }
  return false;
}

/// Returns the role, or the empty string for an element that has none.
function roleOf(element) {
  const written = attribute(element, 'role');
  if (written) {
    for (const word of written.slice(0, 200).toLowerCase().split(/\s+/)) {
      if (word === 'none' || word === 'presentation') return isFocusable(element) ? ownRoleOf(element) : '';
      if (word === 'image') return 'img';
      if (word === 'generic') return '';
      if (KNOWN_ROLES.has(word)) return word;
    }
  }
  return ownRoleOf(element);
}

function ownRoleOf(element) {
  const tag = localNameOf(element);
  switch (tag) {
    case 'a':
    case 'area':
      return has(element, 'href') ? 'link' : '';
    case 'input': {
      const type = element.type;
      if (type === 'hidden') return '';
      if (has(element, 'list') && ['text', 'search', 'email', 'url', 'tel'].includes(type)) return 'combobox';
      return INPUT_ROLES[type] || 'textbox';
    }
    case 'select':
      return element.multiple || element.size > 1 ? 'listbox' : 'combobox';
    case 'img':
      return attribute(element, 'alt') === '' ? '' : 'img';
    case 'svg':
      return 'img';
    case 'header':
      return isInSection(element) ? '' : 'banner';
    case 'footer':
      return isInSection(element) ? '' : 'contentinfo';
    case 'section':
      return has(element, 'aria-label') || has(element, 'aria-labelledby') ? 'region' : '';
    case 'form':
      return 'form';
    case 'summary': {
      const parent = parentOf(element);
      return isElement(parent) && localNameOf(parent) === 'details' ? 'button' : '';
    }
    case 'th':
      return attribute(element, 'scope') === 'row' ? 'rowheader' : 'columnheader';
    default:
      if (isEditingHost(element)) return 'textbox';
      return Object.hasOwn(TAG_ROLES, tag) ? TAG_ROLES[tag] : '';
  }
}

function isEditingHost(element) {
  const value = attribute(element, 'contenteditable');
  return value !== null && value.toLowerCase() !== 'false';
}

function isFocusable(element) {
  return has(element, 'tabindex') || has(element, 'href') || isEditingHost(element) || isMatch(element, 'button, input, select, textarea');
}

/// Returns true for a field whose content must never be shown. A field stays one when its page
/// turns it into a plain field, as the eye beside a password does.
const secretFields = new WeakSet();
function isSecret(element) {
  if (secretFields.has(element)) return true;
  const tag = localNameOf(element);
  if (tag !== 'input' && tag !== 'textarea') return false;
  const isOne =
    (tag === 'input' && element.type === 'password') || /password|one-time-code|cc-csc/.test(attribute(element, 'autocomplete') || '');
  if (isOne) secretFields.add(element);
  return isOne;
}
