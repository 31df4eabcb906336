// The tab of language models: text is generated token by token, each with its probability.
function writingRoom() {
  const models = modelsOf('writing', model => model.kind === 'language_model');
  if (!models.any) return false;
  const field = $('writing-in'), go = $('writing-go'), stop = $('writing-stop'), why = whyBox($('writing-why'));
  const [temperature, most, seed] = ['temperature', 'most', 'seed'].map(name => $('writing-' + name));
  // The prompt, the generated tokens, the selected token, and how the text ended.
  let now = null, control = null;

  const isChat = () => !!models.now.answers_messages;
  const said = (token, i) => T.tokenText(visible(token.text), percent(token.probability), i + 1, now.tokens.length);
  function look(i) {
    now.at = i;
    const nodes = $('writing-text').querySelectorAll('.token');
    nodes.forEach((node, j) => node.classList.toggle('now', j === i));
    nodes[i]?.scrollIntoView({ block: 'nearest' });
    $('writing-readout').textContent = said(now.tokens[i], i);
  }
  function add(token, i) {
    const node = el('span', { class: 'token', text: token.text, title: T.percent(percent(token.probability)) });
    node.style.setProperty('--share', percent(token.probability * .6) + '%');
    node.addEventListener('click', () => look(i));
    $('writing-text').append(node);
  }
  function end(how) {
    now.stop = how;
    stop.disabled = true;
    $('writing-out').setAttribute('aria-busy', 'false');
    $('writing-readout').textContent = T.stops[how] ?? how;
    drawTable();
  }
  function drawTable() {
    if (!$('writing-fold').open || !now) return;
    $('writing-table').replaceChildren(el('thead', {}, el('tr', {}, ...T.tokenHead.map(text => el('th', { scope: 'col', text })))),
      el('tbody', {}, ...now.tokens.map(({ text, probability }, i) => el('tr', {}, el('td', { text: i + 1 }), el('td', { class: 'pre', text: visible(text) }), el('td', { text: T.percent(percent(probability)) })))));
  }
  redraws.push(() => {
    $('writing-label').textContent = isChat() ? T.message : T.begin;
    field.placeholder = isChat() ? T.messageHint : T.beginHint;
    $('writing-copy').textContent = T.copy;
    if (!now) return;
    if (now.at >= 0) look(now.at); else if (now.stop) $('writing-readout').textContent = T.stops[now.stop];
    drawTable();
  });

  async function write() {
    control?.abort();
    control = new AbortController();
    const { signal } = control, model = models.now.model_id, prompt = field.value;
    noProblem();
    why.clear();
    now = { prompt, tokens: [], at: -1, stop: '' };
    $('writing-out').hidden = false;
    $('writing-out').setAttribute('aria-busy', 'true');
    $('writing-text').replaceChildren(...isChat() ? [] : [el('span', { class: 'given', text: prompt })]);
    $('writing-readout').textContent = T.working;
    stop.disabled = false;
    const whole = (input, least, other) => { const n = Math.round(Number(input.value)); return input.value !== '' && n >= least ? n : other; };
    const limit = S.info.max_new_tokens ?? 1024;
    const body = { model, inputs: prompt, temperature: Number(temperature.value), max_tokens: Math.min(limit, whole(most, 1, 80)), seed: whole(seed, 0, 42) };
    try {
      for await (const event of events('generate', body, signal)) {
        if (event.stop) { end(event.stop); continue; }
        now.tokens.push(event);
        add(event, now.tokens.length - 1);
        if (now.at < 0) $('writing-readout').textContent = said(event, now.tokens.length - 1);
      }
      sayAloud(now.tokens.map(token => token.text).join(''));
      const text = prompt + now.tokens.map(token => token.text).join('');
      if (!isChat() && text.trim()) {
        why.offer(() => T.lookNext, async () => {
          try {
            why.wait();
            why.show(await askText('explain', { model, inputs: text, html: true }, signal));
          } catch (error) { showProblem(error); }
        });
      }
    } catch (error) {
      if (signal.aborted) return;
      end('asked');
      $('writing-readout').textContent = '';
      showProblem(error, write);
    }
  }
  const showTemperature = () => { $('writing-temperature-now').textContent = Number(temperature.value).toFixed(1); };
  [field, temperature, most, seed].forEach(keep);
  most.max = S.info.max_new_tokens ?? 1024;
  temperature.addEventListener('input', showTemperature);
  go.addEventListener('click', write);
  stop.addEventListener('click', () => { control.abort(); end('asked'); go.focus(); });
  onCtrlEnter(field, go);
  walk($('writing-text'), () => now?.tokens ?? [], () => now.at < 0 ? now.tokens.length : now.at, look);
  $('writing-fold').addEventListener('toggle', drawTable);
  $('writing-copy').hidden = !navigator.clipboard;
  $('writing-copy').addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText($('writing-text').textContent);
      $('writing-copy').textContent = T.copied;
    } catch { /* the text can be selected and copied by hand */ }
  });
  models.onChange(() => { control?.abort(); now = null; why.clear(); $('writing-out').hidden = true; speak(); });
  showTemperature();
  return true;
}
