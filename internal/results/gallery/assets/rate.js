// Rating: a user rates rows as good or bad, with keys in the grid and in the viewer. This browser stores ratings by the page's address
// and the row's key. The user can download them as a table, which can be an input table.
const ratingsName = `latentbeam ratings ${location.pathname.replace(/[^/]*$/, '')}`;
const ratingsButton = document.getElementById('ratings');
let ratings = {};
try { ratings = JSON.parse(localStorage.getItem(ratingsName)) ?? {}; } catch { /* a page without storage forgets them */ }
const rowName = (row) => `${row.at} ${keyOf(row)}`;
const ratingOf = (row) => ratings[rowName(row)] ?? '';

function rate(row, rating) {
  if (rating) ratings[rowName(row)] = rating;
  else delete ratings[rowName(row)];
  try { localStorage.setItem(ratingsName, JSON.stringify(ratings)); } catch { /* see above */ }
  const card = cards.get(row);
  if (card) mark(card);
  for (const button of document.querySelectorAll('#viewer [data-rate]')) {
    button.setAttribute('aria-pressed', String(current !== null && ratingOf(current) === button.dataset.rate));
  }
  showRatings();
}

// mark shows the rating on a card, and whether it is selected for a comparison.
function mark(card) {
  card.dataset.rating = ratingOf(card.row);
  card.classList.toggle('picked', picked.has(card.row));
}

function showRatings() {
  const n = rows.filter(ratingOf).length;
  ratingsButton.textContent = `Ratings (${n})`;
  ratingsButton.disabled = n === 0;
}

const csvCell = (text) => /[",\r\n]/.test(text) || text !== text.trim() ? `"${text.replaceAll('"', '""')}"` : text;
function ratingsTable() {
  const lines = [['id', 'prompt', 'seed', 'sample_index', 'rating', 'rated_key']];
  for (const row of rows) {
    if (ratingOf(row)) lines.push([row.id, row.prompt, row.seed, row.sample ?? 0, ratingOf(row), keyOf(row)]);
  }
  return lines.map((cells) => cells.map((cell) => csvCell(String(cell))).join(',')).join('\n') + '\n';
}

function downloadRatings() {
  const a = element('a');
  a.href = URL.createObjectURL(new Blob([ratingsTable()], { type: 'text/csv' }));
  a.download = 'ratings.csv';
  a.click();
  URL.revokeObjectURL(a.href);
}
ratingsButton.addEventListener('click', downloadRatings);

// Comparing: selected rows, or all videos of a prompt, play side by side, synchronised with the first.
const comparison = document.getElementById('comparison');
const compareButton = document.getElementById('compare');
const side = comparison.querySelector('.sides');
const maxSides = 9;
const picked = new Set();

function pickRow(row) {
  if (!picked.delete(row) && picked.size < maxSides) picked.add(row);
  const card = cards.get(row);
  if (card) mark(card);
  compareButton.textContent = `Compare (${picked.size})`;
  compareButton.disabled = picked.size < 2;
}

const samplesOf = (row) => rows.filter((other) => other.prompt === row.prompt).slice(0, maxSides);

// folderOf distinguishes outputs if one page shows videos of several outputs.
const folderOf = (row) => /^(\.\.\/|https?:)/.test(row.video) ? fileOf(row).replace(/\/(videos|names)\/.*$|\/[^/]*$/, '') : '';

function compare(shown) {
  clock = 0;
  clearSides();
  for (const row of shown) {
    const figure = element('figure', row.pixel ? 'pixel' : '');
    const media = element(tagOf(row));
    if (!row.still) Object.assign(media, { muted: true, loop: false, playsInline: true, preload: 'auto', poster: row.poster });
    media.src = row.video;
    const differ = row.details.filter(([name, value]) => shown.some((other) => (other.details.find(([n]) => n === name)?.[1] ?? '') !== value));
    const caption = element('figcaption');
    caption.append(element('strong', '', [/^[0-9a-f]{12,}/.test(row.id) ? '' : nameOf(row), `sample ${row.sample ?? 0}`, `seed ${row.seed}`,
      folderOf(row)].filter(Boolean).join(' · ')));
    for (const [name, value] of differ.slice(0, 8)) caption.append(element('span', '', `${name.replace(/^Measured /, '')} ${value}`));
    figure.append(media, caption);
    side.append(figure);
  }
  const prompts = new Set(shown.map((row) => row.prompt));
  document.getElementById('comparison-prompt').textContent = prompts.size === 1 ? shown[0].prompt : `${shown.length} videos`;
  if (!comparison.open) comparison.showModal();
  setComparing(true);
  settle();
}

const sideVideos = () => [...side.querySelectorAll('video')];
function clearSides() {
  for (const video of sideVideos()) release(video);
  side.replaceChildren();
}

// sync sets all videos to the time of the first, and restarts them when the longest has ended.
const playButton = document.getElementById('comparison-play');
const timeSlider = document.getElementById('comparison-time');
const lengthOfAll = () => Math.max(0, ...sideVideos().map((video) => video.duration || 0));
let comparing = false;
let clock = 0; // seconds since the start
let ticked = 0;
function setComparing(on) {
  comparing = on;
  playButton.textContent = on ? 'Pause' : 'Play';
  ticked = performance.now();
  if (on) requestAnimationFrame(tick);
  seek();
}
function seek() {
  for (const video of sideVideos()) {
    const at = Math.min(clock, (video.duration || 0) - 0.001);
    if (Math.abs(video.currentTime - at) > 0.12 && at >= 0) video.currentTime = at;
    if (comparing && clock < (video.duration || 0)) video.play().catch(() => {});
    else video.pause();
  }
  timeSlider.value = String(lengthOfAll() ? 1000 * clock / lengthOfAll() : 0);
}
function tick(now) {
  if (!comparing || !comparison.open) return;
  clock += (now - ticked) / 1000;
  ticked = now;
  if (lengthOfAll() && clock > lengthOfAll() + 0.3) clock = 0;
  seek();
  requestAnimationFrame(tick);
}
playButton.addEventListener('click', () => setComparing(!comparing));
timeSlider.addEventListener('input', () => {
  clock = timeSlider.value / 1000 * lengthOfAll();
  setComparing(false);
});
comparison.addEventListener('close', () => {
  if (comparison.open) return; // it is open again
  comparing = false;
  clock = 0;
  clearSides();
  settle();
});
comparison.addEventListener('click', (event) => { if (event.target === comparison) comparison.close(); });
document.getElementById('comparison-close').addEventListener('click', () => comparison.close());
compareButton.addEventListener('click', () => compare([...picked]));
document.getElementById('viewer-samples').addEventListener('click', () => {
  const shown = samplesOf(current);
  viewer.close();
  compare(shown);
});
for (const button of document.querySelectorAll('#viewer [data-rate]')) {
  button.addEventListener('click', () => rate(current, ratingOf(current) === button.dataset.rate ? '' : button.dataset.rate));
}

const rateKeys = { g: 'good', b: 'bad', u: '' };
document.addEventListener('keydown', (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches('input, select, textarea') || comparison.open) return;
  const row = viewer.open ? current : event.target.closest?.('.card')?.row;
  if (!row) return;
  if (event.key in rateKeys) rate(row, rateKeys[event.key]);
  else if (event.key === 'c' && !viewer.open) pickRow(row);
  else return;
  event.preventDefault();
});
