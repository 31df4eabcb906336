// The tab of tables: rows pasted from a spreadsheet are classified in batches, and exported as CSV.

// Rows per request, parallel requests, and rows shown.
const BATCH = 32, AT_A_TIME = 3, SHOWN = 200;

function tableRoom() {
  const models = modelsOf('table', predicts);
  if (!models.any) return false;
  const field = $('table-in'), header = $('table-header'), [first, second] = [$('table-first'), $('table-second')];
  const go = $('table-go'), cancel = $('table-cancel'), save = $('table-save');
  // The rows with their column names, the answer to each row, and the current state.
  let rows = [], width = 0, answers = [], running = null, state = '', fileName = 'table';

  const hasNames = () => header.checked && rows.length > 1;
  const body = () => hasNames() ? rows.slice(1) : rows;
  const names = () => Array.from({ length: width }, (_, i) => hasNames() && rows[0][i]?.trim() || T.column(i + 1));
  const columnsHere = () => (models.now.columns ?? []).map(name => [name, hasNames() ? rows[0].findIndex(cell => cell.trim() === name) : -1]);
  const doneCount = () => answers.reduce(n => n + 1, 0);

  // ---- what was pasted ----
  function guess() {
    // Names are short, and differ from the cells below them.
    header.checked = rows.length > 1 && rows[0].every(cell => cell.trim() && [...cell].length <= 30) && new Set(rows[0]).size === width && rows[0].some((cell, i) => rows.slice(1, 50).every(row => row[i] !== cell) && ([...cell].length * 2 < mean(i) || width > 1));
    const byLength = [...Array(width).keys()].sort((a, b) => mean(b) - mean(a));
    const named = (...wanted) => rows[0].findIndex(cell => wanted.includes(cell.trim().toLowerCase()));
    const one = named('text', 'texts', 'テキスト', '本文', 'review', 'sentence', 'premise', 'sentence1', 'text1'), two = named('hypothesis', 'sentence2', 'text2');
    choose(header.checked && one >= 0 ? one : byLength[0] ?? 0, header.checked && two >= 0 ? two : byLength[1] ?? 0);
  }
  const mean = i => rows.slice(1, 50).reduce((sum, row) => sum + [...row[i] ?? ''].length, 0) / Math.max(1, Math.min(49, rows.length - 1));
  function choose(one, two) {
    for (const [select, chosen] of [[first, one], [second, two]]) {
      select.replaceChildren(...names().map((name, i) => el('option', { value: i, text: clip(name, 30) })));
      select.value = Math.max(0, Math.min(width - 1, chosen));
    }
  }
  function read() {
    running?.abort();
    rows = tableOf(field.value);
    width = rows.reduce((most, row) => Math.max(most, row.length), 0);
    restart();
    if (rows.length) guess();
    draw();
  }
  function restart() { answers = []; state = ''; }

  // ---- asking ----
  const textsOf = row => (models.now.reads_pairs ? [first, second] : [first]).map(select => row[Number(select.value)] ?? '');
  function batchesOf(all) {
    const limit = Math.min(BATCH, S.info.max_client_batch_size ?? BATCH), bytesMost = (S.info.max_body_bytes ?? 1e6) * .8, most = S.info.max_input_characters ?? Infinity;
    const places = columnsHere().filter(([, i]) => i >= 0), encoder = new TextEncoder(), batches = [];
    let last = null;
    all.forEach((row, i) => {
      if (answers[i]) return;
      const texts = textsOf(row);
      if (!texts.every(text => text.trim())) { answers[i] = { none: 'rowEmpty' }; return; }
      if (texts.some(text => [...text].length > most)) { answers[i] = { none: 'rowLong' }; return; }
      const columns = Object.fromEntries(places.map(([name, at]) => [name, row[at] ?? '']).filter(([, value]) => value.trim()));
      const key = JSON.stringify(columns), bytes = encoder.encode(JSON.stringify(texts)).length;
      // Values of feature columns apply to a whole request.
      if (!last || last.places.length >= limit || last.bytes + bytes > bytesMost || last.key !== key) batches.push(last = { places: [], inputs: [], bytes: 0, key, columns });
      last.places.push(i);
      last.inputs.push(texts);
      last.bytes += bytes;
    });
    return batches;
  }
  async function classify() {
    const control = running = new AbortController(), { signal } = control, all = body(), model = models.now.model_id, batches = batchesOf(all);
    noProblem();
    state = 'running';
    draw();
    const work = async () => {
      for (let batch; (batch = batches.shift());) {
        const { places, inputs, columns } = batch;
        const found = await ask('predict', { model, inputs, full: true, ...Object.keys(columns).length && { columns } }, signal);
        places.forEach((place, i) => { answers[place] = found[i]; });
        drawSoon();
      }
    };
    try {
      await Promise.all(Array.from({ length: AT_A_TIME }, work));
      state = 'done';
    } catch (error) {
      if (running !== control) return;
      state = 'stopped';
      control.abort();
      if (!(error instanceof DOMException)) showProblem(error, classify);
    } finally {
      if (running === control) {
        running = null;
        draw();
        // The focused button is gone.
        if ([document.body, cancel].includes(document.activeElement)) (state === 'done' ? save : go).focus();
      }
    }
  }

  // ---- what came ----
  const KEYS = { labels: ['labels'], score: ['score', 'low', 'high'], spans: ['spans'], label: ['label', 'probability'] };
  const formOf = () => { const one = answers.find(answer => answer && !answer.none); return one && Object.keys(KEYS).find(key => key in one); };
  function valuesOf(answer, keys) {
    if (!answer || answer.none) return keys.map(() => '');
    if (answer.spans) return [JSON.stringify(answer.spans)];
    if (answer.labels) return [answer.labels.map(l => l.label).join('|')];
    return keys.map(key => answer[key] ?? '');
  }
  function shownOf(answer, keys) {
    if (answer?.none) return [T[answer.none], ...keys.slice(1).map(() => '')];
    if (answer?.spans) return [answer.spans.map(s => `${s.text} (${s.label})`).join(T.list)];
    return valuesOf(answer, keys).map((value, i) => keys[i] === 'probability' && value !== '' ? T.percent(percent(value)) : value);
  }
  function drawRows() {
    const form = formOf();
    $('table-out').hidden = !form;
    if (!form) return;
    const keys = KEYS[form], all = body(), heads = ['', ...keys.map(key => T.columnNames[key]), ...(models.now.reads_pairs ? [first, second] : [first]).map(select => names()[Number(select.value)])];
    const row = (cells, i) => el('tr', {}, el('td', { class: 'note', text: i + 1 }), ...shownOf(answers[i], keys).map((text, k) => el('td', { class: k ? '' : 'told', text })), ...textsOf(cells).map(text => el('td', { class: 'long-text', text: clip(text, 160), dir: 'auto' })));
    $('table-rows').replaceChildren(el('thead', {}, el('tr', {}, ...heads.map(text => el('th', { scope: 'col', text })))), el('tbody', {}, ...all.slice(0, SHOWN).map(row)));
    $('table-more').textContent = all.length > SHOWN ? T.shown(SHOWN, all.length) : '';
  }
  function draw() {
    const all = body(), done = doneCount(), isRunning = state === 'running', here = columnsHere();
    $('table-settings').hidden = !rows.length;
    $('table-second-box').hidden = !models.now.reads_pairs;
    $('table-first-label').textContent = models.now.reads_pairs ? T.firstColumn : T.textColumn;
    const beside = (is, say) => { const list = here.filter(([, i]) => i >= 0 === is).map(([name]) => name); return list.length ? ' ' + say(list.join(T.list)) : ''; };
    $('table-found').textContent = rows.length ? (all.length === 1 ? T.oneRow(width) : T.found(all.length, width)) + beside(true, T.besideFound) + beside(false, T.besideMissing) : field.value.trim() ? T.noTable : '';
    go.disabled = !rows.length || isRunning || state === 'done';
    go.textContent = state === 'stopped' ? T.goOn : T.classify;
    cancel.hidden = !isRunning;
    save.disabled = isRunning || !formOf();
    $('table-advance').hidden = !state;
    $('table-progress').max = Math.max(1, all.length);
    $('table-progress').value = done;
    $('table-progress-text').textContent = { running: T.progress, done: (_, all) => T.finished(all), stopped: T.cancelled }[state]?.(done, all.length) ?? '';
    drawRows();
  }
  let isAsked = false;
  function drawSoon() {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => { isAsked = false; draw(); });
  }
  function download() {
    const keys = KEYS[formOf()], padded = row => [...row, ...Array(width - row.length).fill('')];
    const lines = body().map((row, i) => [...padded(row), ...valuesOf(answers[i], keys).map(withoutFormula)]);
    if (hasNames()) lines.unshift([...padded(rows[0]), ...keys.map(key => T.columnNames[key])]);
    const link = el('a', { href: URL.createObjectURL(new Blob([csvOf(lines)], { type: 'text/csv;charset=utf-8' })), download: `${fileName}-${models.now.model_id}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  keep(field);
  field.addEventListener('input', read);
  // Browsers take minutes to paste thousands of lines into a field, but set them at once.
  field.addEventListener('paste', e => {
    const text = e.clipboardData?.getData('text/plain') ?? '';
    if (text.length < 5000) return;
    e.preventDefault();
    field.setRangeText(text, field.selectionStart, field.selectionEnd, 'end');
    field.dispatchEvent(new Event('input'));
  });
  $('table-open').addEventListener('click', () => $('table-file').click());
  $('table-file').addEventListener('change', async e => {
    const [file] = e.target.files;
    if (!file) return;
    fileName = file.name.replace(/\.\w+$/, '');
    field.value = textOf(await file.arrayBuffer());
    // The same file may be chosen again.
    e.target.value = '';
    field.dispatchEvent(new Event('input'));
  });
  const again = () => { running?.abort(); running = null; restart(); draw(); };
  header.addEventListener('change', () => { const old = [first.value, second.value]; again(); choose(...old.map(Number)); draw(); });
  [first, second].forEach(select => select.addEventListener('change', again));
  models.onChange(again);
  go.addEventListener('click', classify);
  cancel.addEventListener('click', () => running?.abort());
  save.addEventListener('click', download);
  redraws.push(() => { if (rows.length) { const old = [first.value, second.value]; choose(...old.map(Number)); } draw(); });
  if (field.value) read(); else draw();
  return true;
}
