// The tab for translations, which grow word by word; each word shows where it comes from.
function translationRoom() {
  const models = modelsOf('translation', model => model.kind === 'translator');
  if (!models.any) return false;
  const field = $('translation-in'), go = $('translation-go'), why = whyBox($('translation-why'));
  // The words of both sides, the weights of each translated word, and the selected word.
  let now = null, control = null;

  function drawText() {
    $('translation-text').textContent = now.text || '…';
    if (isKana(now.text)) $('translation-text').lang = 'ja'; else $('translation-text').removeAttribute('lang');
    $('translation-note').textContent = now.isCut ? T.sourceCut : '';
    $('translation-out').setAttribute('aria-busy', !now.isDone);
  }
  function drawWords() {
    const token = (word, i) => {
      const node = el('span', { class: 'token', text: visible(word) });
      node.addEventListener('click', () => mark(i));
      return node;
    };
    $('translation-source').replaceChildren(...now.source.map(word => el('span', { class: word === '[END]' ? 'token end' : 'token', text: word === '[END]' ? T.end : visible(word) })));
    $('translation-target').replaceChildren(...now.words.map(token));
    mark(now.at < 0 ? now.words.length - 1 : now.at, now.at >= 0);
  }
  // Selects a word of the translation, and colors the source words by their weights.
  function mark(i, isChosen = true) {
    if (isChosen) now.at = i;
    const weights = now.weights[i] ?? [];
    [...$('translation-target').children].forEach((node, j) => node.classList.toggle('now', j === i));
    [...$('translation-source').children].forEach((node, j) => {
      node.style.setProperty('--share', percent(weights[j] ?? 0, 1) + '%');
      node.classList.toggle('strong', (weights[j] ?? 0) > .6);
      node.title = T.percent(percent(weights[j] ?? 0));
    });
    if (i < 0) { $('translation-readout').textContent = ''; return; }
    const best = weights.map((w, j) => ({ w, j })).sort((a, b) => b.w - a.w).slice(0, 3).filter(({ w }) => w >= .01);
    $('translation-readout').textContent = T.aligned(now.words[i], best.map(({ w, j }) => T.alignedShare(now.source[j], percent(w, 0))).join(T.list));
  }
  redraws.push(() => { if (now) { drawText(); drawWords(); } });

  async function translate() {
    const text = field.value;
    if (!text.trim()) { field.focus(); return; }
    control?.abort();
    control = new AbortController();
    const { signal } = control, model = models.now.model_id;
    noProblem();
    why.clear();
    now = { text: '', source: [], words: [], weights: [], at: -1, isDone: false };
    $('translation-out').hidden = false;
    drawText();
    drawWords();
    try {
      for await (const event of events('translate', { model, inputs: text }, signal)) {
        if (event.translation !== undefined) {
          Object.assign(now, { text: event.translation, isCut: event.is_cut, isDone: true });
        } else {
          if (event.source) now.source = event.source;
          now.text = event.text;
          now.words = [...now.words.slice(0, event.kept), ...event.words];
          now.weights = [...now.weights.slice(0, event.kept), ...event.weights];
          if (now.at >= event.kept) now.at = -1;
          drawWords();
        }
        drawText();
      }
      sayAloud(now.text);
      why.offer(() => T.lookAll, async () => {
        try {
          why.wait();
          why.show(await askText('explain', { model, inputs: text, html: true }, signal));
        } catch (error) { showProblem(error); }
      });
    } catch (error) {
      if (signal.aborted) return;
      $('translation-out').setAttribute('aria-busy', 'false');
      showProblem(error, translate);
    }
  }
  keep(field);
  go.addEventListener('click', translate);
  onCtrlEnter(field, go);
  walk($('translation-grown'), () => now?.words ?? [], () => now.at < 0 ? now.words.length - 1 : now.at, i => mark(i));
  models.onChange(() => { control?.abort(); why.clear(); now = null; $('translation-out').hidden = true; });
  return true;
}
