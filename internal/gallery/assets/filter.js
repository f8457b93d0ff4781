// Filtering: a card stays when its prompt or id holds every word typed, in any case. The words live in the
// page's fragment, so that they survive a reload, a link sent to someone and the step to the next page.
const filter = document.getElementById('filter');
const status = document.getElementById('status');
const allText = status.textContent;
const paged = document.querySelector('.pager') !== null;

const fold = (text) => text.normalize('NFKC').toLowerCase();
const promptOf = (card) => {
  const prompt = card.querySelector('.prompt');
  return prompt.classList.contains('none') ? '' : prompt.textContent;
};
const idOf = (card) => {
  const name = card.querySelector('template').content.querySelector('dt');
  return name.textContent === 'ID' ? name.nextElementSibling.textContent : '';
};
const haystacks = cards.map((card) => fold(promptOf(card) + '\n' + idOf(card)));

// shown are the cards that the filter leaves, in order.
const shown = () => cards.filter((card) => !card.hidden);

function applyFilter() {
  const words = fold(filter.value).split(/\s+/).filter(Boolean);
  let left = 0;
  cards.forEach((card, i) => {
    card.hidden = !words.every((word) => haystacks[i].includes(word));
    if (!card.hidden) left++;
  });
  const on = words.length > 0;
  status.textContent = on ? `${left} of ${cards.length}` + (paged ? ' on this page' : '') : allText;
  document.getElementById('scope').hidden = !(on && paged);
  document.getElementById('nothing').hidden = !(on && left === 0);
  carryFilter(on ? '#filter=' + encodeURIComponent(filter.value.trim()) : '');
  settle();
}

function carryFilter(fragment) {
  for (const a of document.querySelectorAll('.pager a')) a.hash = fragment;
  if (location.hash === fragment) return;
  history.replaceState(null, '', fragment || location.pathname + location.search);
}

function readFragment() {
  const match = /^#filter=(.*)$/.exec(location.hash);
  try {
    filter.value = match ? decodeURIComponent(match[1]) : '';
  } catch {
    filter.value = ''; // a fragment cut in the middle of an escape
  }
  applyFilter();
}

filter.addEventListener('input', applyFilter);
filter.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && filter.value) {
    filter.value = '';
    applyFilter();
    event.preventDefault();
  }
});
addEventListener('hashchange', readFragment);

