// Viewing: a card opens in a dialog with the whole prompt and everything that made the video. Arrow keys move
// through the cards that the filter leaves, in the grid and in the dialog alike.
const viewer = document.getElementById('viewer');
const stage = viewer.querySelector('.fit');
const copy = document.getElementById('viewer-copy');
let current = null; // the card on view

function mediaFor(card) {
  const source = card.querySelector('.media');
  const video = videoOf(card);
  const media = document.createElement(video ? 'video' : 'img');
  if (video) {
    media.poster = video.poster;
    media.muted = media.loop = media.controls = media.playsInline = true;
    media.autoplay = autoplay();
  } else {
    media.alt = promptOf(card);
  }
  media.width = card.style.getPropertyValue('--w');
  media.height = card.style.getPropertyValue('--h');
  media.addEventListener('error', () => {
    if (!media.isConnected) return;
    const note = document.createElement('p');
    note.className = 'broken';
    note.textContent = 'This file cannot be shown: ' + decodeURIComponent(source.getAttribute('href'));
    stage.replaceChildren(note);
  });
  media.src = source.href;
  return media;
}

function clearStage() {
  const video = stage.querySelector('video');
  stage.replaceChildren();
  if (video) release(video); // gives its decoder back now, not when memory is next collected
}

function show(card) {
  current = card;
  const order = shown();
  const at = order.indexOf(card);
  clearStage();
  stage.classList.toggle('pixel', card.classList.contains('pixel'));
  stage.style.cssText = card.style.cssText;
  stage.append(mediaFor(card));
  const prompt = document.getElementById('viewer-prompt');
  prompt.textContent = promptOf(card) || 'No prompt';
  prompt.classList.toggle('none', !promptOf(card));
  prompt.scrollTop = 0;
  copy.textContent = 'Copy prompt';
  copy.disabled = !promptOf(card);
  document.getElementById('viewer-details').replaceChildren(
    card.querySelector('template').content.cloneNode(true));
  document.getElementById('viewer-at').textContent = `${at + 1} of ${order.length}`;
  document.getElementById('viewer-prev').disabled = at <= 0;
  document.getElementById('viewer-next').disabled = at >= order.length - 1;
  if (!viewer.open) viewer.showModal();
  settle();
}

function step(by) {
  const order = shown();
  const card = order[order.indexOf(current) + by];
  if (card) show(card);
}

async function copyPrompt() {
  const text = promptOf(current);
  try {
    await navigator.clipboard.writeText(text);
    copy.textContent = 'Copied';
  } catch {
    // Without https there is no clipboard to write to: select the text for the reader's own copy.
    getSelection().selectAllChildren(document.getElementById('viewer-prompt'));
    copy.textContent = document.execCommand('copy') ? 'Copied' : 'Selected, press Ctrl+C';
  }
}

// neighbour is the card that an arrow key leads to: beside it in reading order, or the nearest in the next
// row.
function neighbour(card, key) {
  const order = shown();
  const at = order.indexOf(card);
  if (key === 'ArrowLeft') return order[at - 1];
  if (key === 'ArrowRight') return order[at + 1];
  const down = key === 'ArrowDown';
  const beyond = (down ? order.slice(at + 1) : order.slice(0, at).reverse())
    .filter((other) => other.offsetTop !== card.offsetTop);
  return beyond.filter((other) => other.offsetTop === beyond[0].offsetTop)
    .find((other) => down ? other.offsetLeft >= card.offsetLeft : other.offsetLeft <= card.offsetLeft);
}

grid.addEventListener('click', (event) => {
  const card = event.target.closest('.card');
  const plain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey);
  if (!card || !plain || String(getSelection())) return;
  event.preventDefault();
  show(card);
});

grid.addEventListener('keydown', (event) => {
  const card = event.target.closest('.card');
  if (!card || !event.key.startsWith('Arrow') || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  neighbour(card, event.key)?.querySelector('.media').focus();
});

viewer.addEventListener('click', (event) => {
  if (event.target === viewer) viewer.close(); // the backdrop
});
viewer.addEventListener('close', () => {
  clearStage();
  current.querySelector('.media').focus();
  current.scrollIntoView({ block: 'nearest' });
  settle();
});
document.getElementById('viewer-prev').addEventListener('click', () => step(-1));
document.getElementById('viewer-next').addEventListener('click', () => step(1));
document.getElementById('viewer-close').addEventListener('click', () => viewer.close());
copy.addEventListener('click', copyPrompt);

// On the document, because focus leaves a button that becomes disabled and a video that is taken away.
document.addEventListener('keydown', (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (viewer.open && (event.key === 'ArrowLeft' || event.key === 'ArrowRight')) {
    event.preventDefault();
    step(event.key === 'ArrowLeft' ? -1 : 1);
  }
  if (!viewer.open && event.key === '/' && !event.target.matches('input')) {
    event.preventDefault();
    filter.focus();
  }
});

// Everything above is in place: show what needs a script, and start.
for (const part of document.querySelectorAll('.tools, .keys')) part.hidden = cards.length === 0;
motion.hidden = !document.querySelector('.grid video');
setMotion(!stillness.matches);
readFragment();
