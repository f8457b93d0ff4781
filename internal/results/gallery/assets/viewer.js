// Viewing: a card opens in a dialog with the whole prompt and all parameters of the video. Arrow keys move
// through the shown cards, in the grid and in the dialog.
const viewer = document.getElementById('viewer');
const stage = viewer.querySelector('.fit');
const copy = document.getElementById('viewer-copy');
let current = null; // the row that is shown

function mediaFor(row) {
  const media = element(tagOf(row));
  if (row.still) {
    media.alt = row.prompt;
  } else if (!row.video) {
    media.className = 'broken';
    media.textContent = 'A browser cannot show this file';
    return media;
  } else {
    if (row.poster) media.poster = row.poster;
    media.muted = media.loop = media.controls = media.playsInline = true;
    media.autoplay = autoplay();
  }
  media.width = row.width;
  media.height = row.height;
  media.addEventListener('error', () => {
    if (!media.isConnected) return;
    stage.replaceChildren(element('p', 'broken', `This file cannot be shown: ${fileOf(row)}`));
  });
  media.src = row.video;
  return media;
}

function detailList(row) {
  const list = element('dl');
  for (const [name, value, url] of detailsOf(row)) {
    const item = element('div');
    const shown = element('dd', '', url ? undefined : value);
    shown.dir = 'auto';
    if (url) {
      const a = element('a', '', value);
      a.href = url;
      shown.append(a);
    }
    item.append(element('dt', '', name), shown);
    list.append(item);
  }
  return list;
}

function clearStage() {
  const video = stage.querySelector('video');
  stage.replaceChildren();
  if (video) release(video); // releases its decoder now, and not at the next garbage collection
}

function view(row) {
  current = row;
  const at = positionOf(row);
  clearStage();
  stage.classList.toggle('pixel', row.pixel);
  stage.style.cssText = `--w:${row.width};--h:${row.height}`;
  stage.append(mediaFor(row));
  const prompt = document.getElementById('viewer-prompt');
  prompt.textContent = row.prompt || 'No prompt';
  prompt.classList.toggle('none', !row.prompt);
  prompt.scrollTop = 0;
  copy.textContent = 'Copy prompt';
  copy.disabled = !row.prompt;
  document.getElementById('viewer-details').replaceChildren(detailList(row));
  const samples = samplesOf(row).length;
  const samplesButton = document.getElementById('viewer-samples');
  samplesButton.hidden = samples < 2;
  samplesButton.textContent = `Compare ${samples} of this prompt`;
  for (const button of viewer.querySelectorAll('[data-rate]')) button.setAttribute('aria-pressed', String(ratingOf(row) === button.dataset.rate));
  document.getElementById('viewer-at').textContent = `${at + 1} of ${order.length}`;
  document.getElementById('viewer-prev').disabled = at <= 0;
  document.getElementById('viewer-next').disabled = at >= order.length - 1;
  if (!viewer.open) viewer.showModal();
  carry();
  settle();
}

function step(by) {
  const row = order[positionOf(current) + by];
  if (row) view(row);
}

async function copyPrompt() {
  const text = current.prompt;
  try {
    await navigator.clipboard.writeText(text);
    copy.textContent = 'Copied';
  } catch {
    // Without https a page cannot write to the clipboard, so select the text for the user to copy.
    getSelection().selectAllChildren(document.getElementById('viewer-prompt'));
    copy.textContent = document.execCommand('copy') ? 'Copied' : 'Selected, press Ctrl+C';
  }
}

// neighbour returns the row to which an arrow key moves: the next one in reading order, or the nearest in the next line.
function neighbour(row, key) {
  if (key === 'ArrowLeft') return order[positionOf(row) - 1];
  if (key === 'ArrowRight') return order[positionOf(row) + 1];
  const [n, i] = placeOf.get(row);
  const line = lines[n + (key === 'ArrowDown' ? 1 : -1)];
  const { left } = lines[n].cards[i];
  return line?.cards.reduce((best, card) => Math.abs(card.left - left) < Math.abs(best.left - left) ? card : best).row;
}

grid.addEventListener('click', (event) => {
  const card = event.target.closest('.card');
  const plain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  if (!card || !plain || String(getSelection())) return;
  event.preventDefault();
  view(card.row);
});

grid.addEventListener('keydown', (event) => {
  const card = event.target.closest('.card');
  if (!card || !event.key.startsWith('Arrow') || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const row = neighbour(card.row, event.key);
  if (row) reveal(row)?.querySelector('.media').focus({ preventScroll: true });
});

viewer.addEventListener('click', (event) => {
  if (event.target === viewer) viewer.close(); // the backdrop
});
viewer.addEventListener('close', () => {
  clearStage();
  carry();
  reveal(current)?.querySelector('.media').focus({ preventScroll: true });
  settle();
});
document.getElementById('viewer-prev').addEventListener('click', () => step(-1));
document.getElementById('viewer-next').addEventListener('click', () => step(1));
document.getElementById('viewer-close').addEventListener('click', () => viewer.close());
copy.addEventListener('click', copyPrompt);

// On the document, because a button that becomes disabled and a video that is removed lose the focus.
document.addEventListener('keydown', (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (viewer.open && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) {
    event.preventDefault();
    step(event.key === 'ArrowLeft' ? -1 : 1);
  }
  if (!viewer.open && event.key === '/' && !event.target.matches('input, select')) {
    event.preventDefault();
    filter.focus();
  }
});

// The file's date if the server sends it; otherwise the current time.
const written = new Date(document.lastModified);
const facts = document.querySelector('header dl');
if (facts && Date.now() - written > 5000) {
  const item = element('div');
  item.append(element('dt', '', 'Written'), element('dd', '', written.toLocaleString()));
  facts.append(item);
}

// Everything above is defined: show the elements that need a script, and start.
const some = rows.length > 0 || failures !== null;
for (const part of document.querySelectorAll('.tools, .keys')) part.hidden = !some;
motion.hidden = rows.every((row) => row.still);
addFacets();
more.hidden = facets.size === 0;
showRatings();
setMotion(!stillness.matches);
readFragment();
