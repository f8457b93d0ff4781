// Rows: the page's data. card.go writes one array per row, in this order.
const columns = ['id', 'source', 'prompt', 'video', 'poster', 'width', 'height', 'frames', 'fps', 'seed', 'steps',
  'guidance', 'model', 'key', 'details', 'sample'];
const fold = (text) => text.normalize('NFKC').toLowerCase();
const fileOf = (row) => decodeURIComponent(row.video);
// tagOf returns the element that shows a row: an image, a video, or a text if a browser can show neither.
const tagOf = (row) => row.still ? 'img' : row.video ? 'video' : 'p';

const rows = JSON.parse(document.getElementById('rows').textContent).map((values, at) => {
  const row = { at };
  columns.forEach((name, i) => { row[name] = values[i]; });
  row.still = /\.(png|jpe?g|webp|gif|avif|bmp)$/i.test(row.video);
  row.seconds = row.fps > 0 ? row.frames / row.fps : 0;
  row.pixel = Math.max(row.width, row.height) < 128; // do not smooth a picture this small
  row.text = fold(`${row.prompt}\n${row.id}\n${row.source}`);
  return row;
});

// Rows with the same key share a file. The first of them counts as the original.
const firstOf = new Map();
for (const row of rows) {
  const name = row.key || row.video;
  if (firstOf.has(name)) row.same = firstOf.get(name);
  else firstOf.set(name, row);
}

const number = (value, digits = 2) => String(Number(value.toFixed(digits)));
const sizeOf = (row) => `${row.width}×${row.height}`;
const lengthOf = (row) => row.frames < 2 ? 'still' :
  row.seconds ? `${number(row.seconds)} s` : `${row.frames} frames`;
const nameOf = (row) => row.id || row.source || `row ${row.at + 1}`;
// keyOf distinguishes rows with the same name, such as the videos of one prompt.
const keyOf = (row) => row.key || fileOf(row).replace(/^.*\//, '').replace(/\.[^.]*$/, '');

// sampled contains the prompts with several samples.
const sampled = new Set(rows.filter((row) => row.sample > 0).map((row) => row.prompt));

// captionOf returns the short facts below a prompt: the numbers by which the page is ordered or limited, and then facts that
// distinguish rows. It leaves out ids and seeds that the program has generated, because they are long.
function captionOf(row) {
  const facts = chosenOf(row);
  if (row.id && !/^[0-9a-f]{12,}/.test(row.id)) facts.push(row.id);
  if (sampled.has(row.prompt)) facts.push(`sample ${row.sample ?? 0}`);
  if (row.seed && row.seed.length < 11) facts.push(`seed ${row.seed}`);
  facts.push(sizeOf(row), lengthOf(row));
  if (row.details.some(([name]) => name === 'Marked as synthetic')) facts.push('synthetic');
  return facts;
}

// detailsOf lists all facts of a row: name, value, and the address to which the value links.
function detailsOf(row) {
  const file = fileOf(row);
  const details = [['ID', row.id], ['Row', row.source]];
  if (row.same) details.push(['Same as', nameOf(row.same)]);
  details.push(['Size', `${row.width} × ${row.height}`]);
  if (row.frames > 1) {
    details.push(['Length', `${row.frames} frames` +
      (row.fps > 0 ? ` at ${number(row.fps, 3)} fps, ${number(row.seconds)} s` : '')]);
  }
  details.push(['Model', row.model], ['Steps', row.steps ? String(row.steps) : ''],
    ['Guidance', row.guidance ? String(row.guidance) : ''], ['Seed', row.seed]);
  details.push(...row.details, ['Key', keyOf(row)],
    ['File', file, row.video]);
  return details.filter(([, value]) => value !== '');
}
