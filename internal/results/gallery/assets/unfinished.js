
// The page of a running job reloads itself, but not while a video is open.
{
  const note = document.getElementById('unfinished');
  const seconds = Number(note.dataset.again);
  const key = `place of ${location.pathname}`;
  const stored = (work) => { // a browser may keep nothing for a file
    try { return work(sessionStorage); } catch { return null; }
  };
  const top = Number(stored((s) => s.getItem(key)) ?? 0);
  stored((s) => s.removeItem(key));
  if (top > 0) requestAnimationFrame(() => scrollTo(0, top));
  setInterval(() => {
    if (document.hidden || document.getElementById('viewer').open) return;
    stored((s) => s.setItem(key, String(scrollY)));
    location.reload();
  }, 1000 * seconds);
  const when = new Date(note.dataset.written);
  document.getElementById('unfinished-at').textContent = when.toLocaleTimeString();
  document.getElementById('unfinished-old').hidden = Date.now() - when < 1000 * Math.max(600, 3 * seconds);
}
