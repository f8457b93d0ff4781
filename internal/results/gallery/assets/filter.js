// Filtering: words, facets and an order. A row is shown if its prompt, id or line contains every word and it has every
// chosen value. The choice is stored in the page's fragment, so that it survives a reload and is part of links, also of
// the links to other pages.
const filter = document.getElementById('filter');
const status = document.getElementById('status');
const sort = document.getElementById('sort');
const failures = document.getElementById('failures'); // null: none on this page
const allText = status.textContent;
const paged = document.querySelector('.pager') !== null;
const switches = ['all', 'videos', 'failed'].map((name) => [name, document.getElementById(`show-${name}`)]);
let show = 'all';

// Orders by name: the label, and the value by which rows are compared.
const byNumber = (of) => (a, b) => of(a) - of(b) || a.at - b.at;
const byText = (of) => (a, b) => of(a).localeCompare(of(b), undefined, { numeric: true }) || a.at - b.at;
const area = (row) => row.width * row.height;
const orders = {
  '': ['As in the input', null],
  'prompt': ['Prompt', byText((row) => row.prompt)],
  'id': ['ID', byText((row) => row.id)],
  'largest': ['Largest first', byNumber((row) => -area(row))],
  'smallest': ['Smallest first', byNumber(area)],
  'longest': ['Longest first', byNumber((row) => -(row.seconds || row.frames))],
  'shortest': ['Shortest first', byNumber((row) => row.seconds || row.frames)],
  'steps': ['Most steps first', byNumber((row) => -row.steps)],
  'model': ['Model', byText((row) => row.model)],
};

// Facets: values that rows share. Facets with a single value, and details with too many values, are left out.
const maxValues = 24;
const facets = new Map(); // name -> {of, select}
function addFacet(name, of, limit) {
  const count = new Map();
  for (const row of rows) {
    const value = of(row);
    if (value) count.set(value, (count.get(value) ?? 0) + 1);
    if (count.size > limit) return;
  }
  if (count.size === 0 || (count.size === 1 && [...count.values()][0] === rows.length)) return;
  const select = element('select');
  select.setAttribute('aria-label', name);
  select.append(new Option(`${name}: any`, ''));
  const compare = new Intl.Collator(undefined, { numeric: true }).compare;
  for (const value of [...count.keys()].sort(compare)) {
    select.append(new Option(`${value} (${count.get(value)})`, value));
  }
  select.addEventListener('change', choose);
  document.getElementById('facets').append(select);
  facets.set(name, { of, select });
}

// addRated adds the facet of ratings, which change while the page is open.
function addRated() {
  const select = element('select');
  select.setAttribute('aria-label', 'Rated');
  for (const [label, value] of [['Rated: any', ''], ['good', 'good'], ['bad', 'bad'], ['not rated', 'none']]) select.append(new Option(label, value));
  select.addEventListener('change', choose);
  document.getElementById('facets').append(select);
  facets.set('Rated', { of: (row) => ratingOf(row) || 'none', select });
}

function addFacets() {
  addFacet('Size', sizeOf, 200);
  addFacet('Length', lengthOf, 200);
  addFacet('Steps', (row) => row.steps ? String(row.steps) : '', 200);
  addFacet('Model', (row) => row.model, 200);
  addFacet('Duplicates', (row) => row.same ? 'duplicate' : '', 1);
  const names = new Set(rows.slice(0, 1000).flatMap((row) => row.details.map(([name]) => name)));
  for (const name of [...names].slice(0, maxRanges)) {
    const values = new Map(rows.map((row) => [row, row.details.find(([n]) => n === name)?.[1] ?? '']));
    if (!addRange(name, values)) addFacet(name, (row) => values.get(row), maxValues);
  }
  addRated();
}

// Ranges: details that are numbers have limits and can be an order.
const ranges = new Map(); // name -> {of, label, least, most}
const maxRanges = 40;
function addRange(name, values) {
  const seen = new Set();
  for (const row of rows) {
    const text = values.get(row);
    if (text === '') continue;
    if (!/^-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text)) return false;
    seen.add(Number(text));
  }
  if (seen.size < 2 || ranges.size === maxRanges) return false;
  const of = (row) => values.get(row) === '' ? NaN : Number(values.get(row));
  const label = name.replace(/^Measured /, '');
  let low = Infinity;
  let high = -Infinity;
  for (const v of seen) { low = Math.min(low, v); high = Math.max(high, v); }
  const bound = (word, value) => {
    const input = element('input');
    Object.assign(input, { type: 'number', step: 'any', placeholder: `${word} ${number(value, 2)}` });
    input.setAttribute('aria-label', `${label}: ${word}`);
    input.addEventListener('input', choose);
    return input;
  };
  const [least, most] = [bound('from', low), bound('to', high)];
  const line = element('div', 'range');
  line.append(element('span', '', label), least, most);
  document.getElementById('facets').append(line);
  ranges.set(name, { of, label, least, most });
  const known = (sign) => (a, b) => {
    const [x, y] = [of(a), of(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a.at - b.at;
    return sign * (x - y) || a.at - b.at;
  };
  for (const [key, text, compare] of [['high', 'highest first', known(-1)], ['low', 'lowest first', known(1)]]) {
    orders[`${key} ${name}`] = [`${label}, ${text}`, compare];
    sort.append(new Option(`${label}, ${text}`, `${key} ${name}`));
  }
  return true;
}

// bounded reports whether a row is within the limits of a range. A row without the number is not.
const asks = ({ least, most }) => least.value !== '' || most.value !== '';
function within({ of, least, most }, row) {
  const v = of(row);
  return !Number.isNaN(v) && (least.value === '' || v >= Number(least.value)) && (most.value === '' || v <= Number(most.value));
}

// chosenOf returns the numbers of a row by which the page is ordered or limited.
function chosenOf(row) {
  return [...ranges].filter(([name, range]) => asks(range) || sort.value === `high ${name}` || sort.value === `low ${name}`)
    .map(([, { of, label }]) => [label, of(row)]).filter(([, value]) => !Number.isNaN(value))
    .map(([label, value]) => `${label} ${number(value, 4)}`);
}

// choose shows the rows that match the controls.
function choose() {
  const words = fold(filter.value).split(/\s+/).filter(Boolean);
  const wanted = [...facets.values()].filter(({ select }) => select.value)
    .map(({ of, select }) => [of, select.value]);
  const bounds = [...ranges.values()].filter(asks);
  let chosen = rows;
  if (words.length || wanted.length || bounds.length) {
    chosen = rows.filter((row) => words.every((word) => row.text.includes(word)) &&
      wanted.every(([of, value]) => of(row) === value) && bounds.every((range) => within(range, row)));
  }
  const compare = orders[sort.value]?.[1];
  if (compare) chosen = [...chosen].sort(compare);
  if (show === 'failed') chosen = [];
  arrange(chosen);
  const failed = chooseFailures(words);
  const on = words.length > 0 || wanted.length > 0 || bounds.length > 0;
  const parts = [];
  if (show !== 'failed') parts.push(on ? `${chosen.length} of ${rows.length}` + (paged ? ' on this page' : '') : allText);
  if (failures && show !== 'videos' && (on || show === 'failed')) parts.push(`${failed} failed`);
  status.textContent = parts.join(', ');
  document.getElementById('chosen').textContent = wanted.length + bounds.length || '';
  document.getElementById('scope').hidden = !((on || sort.value) && paged);
  document.getElementById('nothing').hidden = !(on && chosen.length + failed === 0);
  carry();
  settle();
}

// chooseFailures shows the failed rows that contain every word, and returns their number.
function chooseFailures(words) {
  if (!failures) return 0;
  failures.hidden = show === 'videos';
  let left = 0;
  for (const cause of failures.querySelectorAll('.cause')) {
    const why = fold(cause.querySelector('summary').textContent);
    let some = false;
    for (const item of cause.querySelectorAll('li')) {
      const text = why + fold(item.textContent);
      item.hidden = !words.every((word) => text.includes(word));
      if (item.hidden || item.classList.contains('more')) continue;
      some = true;
      left++;
    }
    cause.hidden = !some;
  }
  return left;
}

function setShow(name) {
  show = failures && switches.some(([known]) => known === name) ? name : 'all';
  for (const [known, button] of switches) button?.setAttribute('aria-pressed', String(known === show));
  if (failures) failures.open = show === 'failed' || rows.length === 0;
}

// carry writes the choice into the fragment, and into the links to other pages.
function carry() {
  const says = new URLSearchParams();
  if (filter.value.trim()) says.set('filter', filter.value.trim());
  if (sort.value) says.set('sort', sort.value);
  if (show !== 'all') says.set('show', show);
  if (current && viewer.open) {
    const name = nameOf(current);
    says.set('row', name);
    if (rows.some((one) => one !== current && nameOf(one) === name)) says.set('key', keyOf(current).slice(0, 12));
  }
  for (const [name, { select }] of facets) if (select.value) says.set(name, select.value);
  for (const [name, range] of ranges) if (asks(range)) says.set(`${name}:`, `${range.least.value}..${range.most.value}`);
  const text = says.toString();
  const fragment = text ? `#${text}` : '';
  for (const a of document.querySelectorAll('.pager a')) a.hash = fragment;
  if (location.hash !== fragment) history.replaceState(null, '', fragment || location.pathname + location.search);
}

function readFragment() {
  const says = new URLSearchParams(location.hash.slice(1));
  filter.value = says.get('filter') ?? '';
  sort.value = says.get('sort') ?? '';
  if (sort.selectedIndex < 0) sort.value = '';
  setShow(says.get('show') ?? 'all');
  for (const [name, { select }] of facets) {
    select.value = says.get(name) ?? '';
    if (select.selectedIndex < 0) select.value = '';
  }
  for (const [name, range] of ranges) {
    [range.least.value, range.most.value] = (says.get(`${name}:`) ?? '..').split('..');
  }
  const [named, key] = [says.get('row'), says.get('key') ?? '']; // choose replaces the fragment
  choose();
  const row = named && order.find((one) => nameOf(one) === named && keyOf(one).startsWith(key));
  if (row) view(row);
}

const more = document.getElementById('more');
document.addEventListener('click', (event) => {
  if (!more.contains(event.target)) more.open = false;
});
for (const [name, [label]] of Object.entries(orders)) sort.append(new Option(label, name));
sort.addEventListener('change', choose);
for (const [name, button] of switches) {
  button?.addEventListener('click', () => { setShow(name); choose(); });
}
filter.addEventListener('input', choose);
filter.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && filter.value) {
    filter.value = '';
    choose();
    event.preventDefault();
  }
});
addEventListener('hashchange', readFragment);
