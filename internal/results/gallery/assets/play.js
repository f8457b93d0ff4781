// Playing: videos in view play, up to a limit. Videos that leave the view pause, and release their decoders if
// there are many, because browsers limit the number of decoders (75 in Chromium on a desktop, 40 on a
// phone).
const maxLoaded = matchMedia('(pointer: coarse)').matches ? 34 : 66;
const maxPlaying = maxLoaded - 4;

const motion = document.getElementById('motion');
const stillness = matchMedia('(prefers-reduced-motion: reduce)');
const visible = new Set(); // cards in view
const loaded = new Set(); // videos that hold a decoder, least recently played first

const videoOf = (card) => card.querySelector('video');
const autoplay = () => motion.getAttribute('aria-pressed') === 'true';

function hold(card) {
  const video = videoOf(card);
  if (!video.hasAttribute('src')) video.src = card.row.video;
  loaded.delete(video);
  loaded.add(video);
  return video;
}

function release(video) {
  loaded.delete(video);
  if (!video.hasAttribute('src')) return;
  video.removeAttribute('src');
  video.load(); // shows the poster again
}

// settle starts and pauses videos according to the view. It is called after every change of the view.
function settle() {
  const busy = document.getElementById('viewer').open || document.hidden;
  const wanted = [...visible].filter(videoOf).slice(0, maxPlaying);
  const playing = new Set(autoplay() && !busy ? wanted.map(hold) : []);
  for (const video of loaded) {
    if (!playing.has(video)) video.pause();
  }
  for (const video of loaded) {
    if (loaded.size <= maxLoaded) break;
    if (!playing.has(video)) release(video);
  }
  for (const video of playing) {
    if (video.paused) video.play().catch(() => {}); // if the file is missing, the poster stays
  }
  if (!autoplay()) showFirstFrames(wanted);
}

// showFirstFrames loads the first frame of a video without a poster, so that it is not an empty box.
function showFirstFrames(wanted) {
  for (const card of wanted) {
    const video = videoOf(card);
    if (video.poster || video.preload === 'metadata') continue;
    video.preload = 'metadata';
    hold(card);
  }
}

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const card = entry.target.closest('.card');
    if (entry.isIntersecting) visible.add(card);
    else visible.delete(card);
  }
  settle();
}, { threshold: 0.25 });

// watch and forget are called when a card is added to the document and removed from it.
function watch(card) {
  watcher.observe(card.querySelector('.media'));
}

function forget(card) {
  watcher.unobserve(card.querySelector('.media'));
  visible.delete(card);
  const video = videoOf(card);
  if (video) release(video);
}

function setMotion(on) {
  motion.setAttribute('aria-pressed', String(on));
  settle();
}
motion.addEventListener('click', () => setMotion(!autoplay()));
stillness.addEventListener('change', () => setMotion(!stillness.matches));
document.addEventListener('visibilitychange', settle);
