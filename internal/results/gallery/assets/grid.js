// Grid: cards are arranged in lines as wide as the page. All media in a line have the same height, so shapes mix without gaps.
// Only lines near the view have cards in the document, so that ten thousand rows scroll as fast as ten.
const grid = document.getElementById('grid');
const gap = 16;
const under = 104; // pixels below the media: two lines of prompt and two of the caption
const between = 18; // pixels between lines
let order = rows; // the rows shown, in their order
let lines = []; // {top, height, cards: [{row, left, width}]}
let placeOf = new Map(); // row -> [line, index in it]
const cards = new Map(); // row -> its element; rows without an element are missing

// ratioOf returns the width of a row's media at height 1, limited so that there is space for a caption.
const ratioOf = (row) => Math.min(2.2, Math.max(0.66, row.width / row.height));

function layout() {
  const width = grid.clientWidth;
  const wanted = Math.min(220, (width - gap) / 2);
  const heightOf = (line) => (width - gap * (line.length - 1)) / line.reduce((sum, row) => sum + ratioOf(row), 0);
  lines = [];
  placeOf = new Map();
  let top = 0;
  const close = (line, height) => {
    let left = 0;
    const placed = line.map((row, i) => {
      const card = { row, left, width: height * ratioOf(row) };
      placeOf.set(row, [lines.length, i]);
      left += card.width + gap;
      return card;
    });
    lines.push({ top, height, cards: placed });
    top += height + under + between;
  };
  let line = [];
  for (const row of order) {
    const more = [...line, row];
    const height = heightOf(more);
    if (height > wanted) {
      line = more;
    } else if (line.length && wanted - height > heightOf(line) - wanted) {
      close(line, heightOf(line));
      line = [row];
      if (heightOf(line) <= wanted) { close(line, heightOf(line)); line = []; }
    } else {
      close(more, height);
      line = [];
    }
  }
  if (line.length) close(line, Math.min(lines.at(-1)?.height ?? wanted, heightOf(line))); // as high as the line above
  grid.style.height = `${Math.max(0, top - between)}px`;
}

// lineAt returns the last line that starts at or above y.
function lineAt(y) {
  let low = 0;
  let high = lines.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (lines[middle].top <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

// draw adds the cards of the lines near the view and removes the others.
function draw() {
  const seen = innerHeight;
  const top = -grid.getBoundingClientRect().top;
  const wanted = new Set();
  if (lines.length) {
    const last = lineAt(top + 2 * seen);
    for (let n = lineAt(top - seen); n <= last; n++) {
      for (const place of lines[n].cards) {
        wanted.add(place.row);
        put(place, lines[n]);
      }
    }
  }
  for (const [row, card] of cards) {
    if (wanted.has(row) || card.contains(document.activeElement)) continue;
    cards.delete(row);
    forget(card);
    card.remove();
  }
}

function put(place, line) {
  let card = cards.get(place.row);
  if (!card) {
    card = newCard(place.row);
    cards.set(place.row, card);
    grid.insertBefore(card, nextCard(place.row)); // in order, for screen readers
    mark(card);
    watch(card);
  }
  card.style.cssText = `left:${place.left}px;top:${line.top}px;width:${place.width}px;--h:${line.height}px`;
  card.setAttribute('aria-posinset', String(positionOf(place.row) + 1));
  card.setAttribute('aria-setsize', String(order.length));
}

const positions = new Map();
const positionOf = (row) => positions.get(row);
function nextCard(row) {
  for (let at = positionOf(row) + 1; at < order.length && at < positionOf(row) + 200; at++) {
    const card = cards.get(order[at]);
    if (card) return card;
  }
  return null;
}

const element = (tag, name, text) => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
};

function newCard(row) {
  const card = element('li', row.pixel ? 'card pixel' : 'card');
  card.row = row;
  const media = element('a', 'media');
  if (row.video) media.href = row.video;
  else media.tabIndex = 0;
  media.setAttribute('aria-label', row.prompt || 'No prompt');
  const shown = element(tagOf(row));
  if (row.still) {
    Object.assign(shown, { loading: 'lazy', decoding: 'async', alt: '', src: row.video });
  } else if (!row.video) {
    shown.textContent = 'No picture';
    shown.className = 'none';
  } else {
    Object.assign(shown, { preload: 'none', muted: true, loop: true, playsInline: true, tabIndex: -1 });
    if (row.poster) shown.poster = row.poster;
  }
  media.append(shown);
  if (row.same) media.append(element('span', 'badge', 'duplicate'));
  const caption = element('p', 'caption');
  for (const fact of captionOf(row)) caption.append(element('span', '', fact), ' ');
  const prompt = element('p', row.prompt ? 'prompt' : 'prompt none', row.prompt || 'No prompt');
  prompt.dir = 'auto';
  card.append(media, prompt, caption);
  return card;
}

// arrange shows these rows, in this order.
function arrange(shownRows) {
  order = shownRows;
  positions.clear();
  order.forEach((row, at) => positions.set(row, at));
  for (const card of cards.values()) {
    forget(card);
    card.remove();
  }
  cards.clear();
  layout();
  draw();
}

// reveal scrolls to a row's card and returns it.
function reveal(row) {
  const [n] = placeOf.get(row) ?? [];
  if (n === undefined) return null;
  const top = grid.getBoundingClientRect().top + scrollY + lines[n].top;
  const bottom = top + lines[n].height + under;
  const bar = 80;
  if (top < scrollY + bar) scrollTo(0, top - bar);
  else if (bottom > scrollY + innerHeight) scrollTo(0, bottom - innerHeight + gap);
  draw();
  return cards.get(row);
}

let drawing = false;
function drawSoon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; draw(); });
}
addEventListener('scroll', drawSoon, { passive: true });
new ResizeObserver(() => { layout(); drawSoon(); }).observe(grid.parentElement);
