// Masks: what must not be seen in a picture of the page.

const MASK_LIMIT = 1000;

/// Returns the boxes of secret fields, and of fields and text that hold one of the values or a secret
/// that was typed. `is_readable` tells that one of these shows more than the dots of a password.
function masks(values) {
  const boxes = [];
  const wanted = [...values.filter((value) => value !== ''), ...typedSecrets];
  let isReadable = false;
  const add = ({ x, y, width, height }) => {
    if (width > 0 && height > 0 && boxes.length < MASK_LIMIT) boxes.push({ x, y, width, height });
  };
  const holds = (held) => wanted.some((value) => held.includes(value));
  eachElement((element) => {
    const tag = localNameOf(element);
    if (tag === 'input' || tag === 'textarea') {
      if (isSecret(element) || holds(element.value)) {
        add(boxOf(element));
        isReadable ||= element.value !== '' && element.type !== 'password';
      }
    } else if (wanted.length > 0 && !UNREAD.has(tag)) {
      for (let node = firstChildOf(element); node; node = nextSiblingOf(node)) if (isText(node) && holds(dataOf(node))) {
        maskText(node, add);
        isReadable = true;
      }
    }
    return boxes.length < MASK_LIMIT;
  });
  return { boxes, scroll_x: scrollX, scroll_y: scrollY, is_complete: boxes.length < MASK_LIMIT, is_readable: isReadable };
}

function maskText(node, add) {
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const box of range.getClientRects()) add(box);
}
