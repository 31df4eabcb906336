// The tab for two texts: a pair that is read together, embeddings that are compared, or two answers side by side.
function twoRoom() {
  const models = modelsOf('two', model => predicts(model) || model.kind === 'encoder');
  if (!models.any) return false;
  const fields = [$('two-first'), $('two-second')], box = $('two-answer'), why = whyBox($('two-why'));
  const valuesOf = columnFields($('two-columns'), () => changed());
  let now = null;

  function cosineNodes({ cosine, isCut, limit }) {
    const fill = el('span', { class: 'fill' });
    fill.style.width = percent(Math.max(0, cosine), 2) + '%';
    return [el('section', { class: 'card' }, el('h2', { class: 'eyebrow', text: T.similarity }), el('p', { class: 'verdict', text: signed(cosine, 3).replace('+', '') }),
      el('span', { class: 'track wide-track', 'aria-hidden': 'true' }, fill), el('p', { class: 'note small', text: T.similarityNote }), ...isCut ? [el('p', { class: 'note small', text: T.wasCut(limit) })] : [])];
  }
  // Each class with both probabilities.
  function difference([first, second]) {
    if (!first.scores.length) return [];
    const of = (answer, label) => answer.scores.find(s => s.label === label)?.score ?? 0;
    const rows = first.scores.map(({ label, score }) => ({ label, a: score, b: of(second, label) })).sort((x, y) => Math.abs(y.b - y.a) - Math.abs(x.b - x.a)).slice(0, 12);
    if (first.full.score !== undefined) return [];
    const table = el('table', { class: 'compare' }, el('thead', {}, el('tr', {}, ...T.differenceHead.map(text => el('th', { scope: 'col', text })))),
      el('tbody', {}, ...rows.map(({ label, a, b }) => el('tr', {}, el('th', { scope: 'row' }, el('bdi', { text: label })), el('td', { text: T.percent(percent(a)) }), el('td', { text: T.percent(percent(b)) }),
        el('td', { class: b - a > .0005 ? 'more' : b - a < -.0005 ? 'less' : '', text: signed(100 * (b - a), 1) })))));
    return [el('div', { class: 'wide plain-wide', tabIndex: 0 }, table)];
  }
  function draw() {
    if (!now) { box.replaceChildren(el('p', { class: 'card note', text: T.bothNeeded })); return; }
    if (now.cosine !== undefined) { box.replaceChildren(...cosineNodes(now)); return; }
    if (now.pair) { box.replaceChildren(el('section', { class: 'card' }, el('h2', { class: 'eyebrow', text: T.answer }), ...answerNodes(now.pair, ''))); return; }
    const { both, texts } = now, [a, b] = both.map(answer => answer.full.label ?? inWords(answer));
    const cards = both.map((answer, i) => el('section', { class: 'card' }, el('h2', { class: 'eyebrow', text: i ? T.secondText : T.firstText }), ...answerNodes(answer, texts[i])));
    const said = a === b ? T.same(a) : T.differs(a, b);
    box.replaceChildren(el('div', { class: 'duo cards' }, ...cards), el('section', { class: 'card' }, el('h2', { text: T.compared }), el('p', { text: said }), ...difference(both)));
  }
  redraws.push(draw);
  const aloud = () => sayAloud(now.cosine !== undefined ? `${T.similarity}: ${now.cosine.toFixed(3)}` : now.pair ? inWords(now.pair) : T.differs(...now.both.map(inWords)));

  async function vectors(model, texts, signal) {
    const body = { model: model.model_id, inputs: texts };
    try {
      return [await ask('embed', body, signal), false];
    } catch (error) {
      // Texts are truncated if the model cannot read them completely, and the page reports it.
      if (!(error instanceof Refused) || error.why !== 'large') throw error;
      return [await ask('embed', { ...body, truncate: true }, signal), true];
    }
  }
  async function explain(body, isShort, signal) {
    const act = async signal => { why.wait(); why.show(await askText('explain', { ...body, html: true }, signal)); };
    if (!isShort) { why.offer(() => T.explainNow, () => act().catch(error => showProblem(error))); return; }
    await pause(250, signal);
    await act(signal);
  }
  const changed = whileTyping(async signal => {
    const model = models.now, texts = fields.map(field => field.value), columns = valuesOf(model);
    if (!texts.every(text => text.trim())) { now = null; why.clear(); draw(); return; }
    box.setAttribute('aria-busy', 'true');
    const isShort = texts.join('').length <= LONG, of = { model: model.model_id, ...Object.keys(columns).length && { columns } };
    try {
      if (model.kind === 'encoder') {
        const [[a, b], isCut] = await vectors(model, texts, signal), dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
        now = { cosine: dot(a, b) / (Math.sqrt(dot(a, a) * dot(b, b)) || 1), isCut, limit: model.max_input_length };
      } else if (model.reads_pairs) now = { pair: await answerTo(model, texts, columns, signal) };
      else now = { both: await Promise.all(texts.map(text => answerTo(model, text, columns, signal))), texts };
    } catch (error) {
      if (!isAbort(error)) { now = null; why.clear(); draw(); }
      throw error;
    } finally {
      box.removeAttribute('aria-busy');
    }
    draw();
    aloud();
    if (model.kind === 'encoder') await explain({ ...of, inputs: texts[0], target: texts[1] }, isShort, signal);
    else if (model.reads_pairs) await explain({ ...of, inputs: texts }, isShort, signal);
    else why.clear();
  }, 250);
  fields.forEach(field => { keep(field); field.addEventListener('input', changed); });
  models.onChange(() => { now = null; why.clear(); draw(); valuesOf(models.now); changed(); });
  valuesOf(models.now);
  draw();
  if (fields.some(field => field.value)) changed();
  return true;
}
