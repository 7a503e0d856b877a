// Elements are made here, and only here: what users wrote becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const byId = (id) => document.getElementById(id);

/** Sets a text if it is another one: a page that is left alone costs nothing. */
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function setClass(element, name) {
  if (element.className !== name) element.className = name;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Makes the children of a list those of these rows, in their order; moves and changes only what differs. */
export function sync(list, rows, make, update) {
  const known = list.known ??= new Map();
  const wanted = new Set();
  let place = list.firstElementChild;
  for (const row of rows) {
    wanted.add(row.key);
    let item = known.get(row.key);
    if (!item) {
      item = make(row);
      item.key = row.key;
      known.set(row.key, item);
    }
    if (item === place) place = place.nextElementSibling;
    else list.insertBefore(item, place);
    update(item, row);
  }
  for (const [key, item] of known) {
    if (!wanted.has(key)) {
      item.remove();
      known.delete(key);
    }
  }
}
