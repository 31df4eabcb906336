// Explanations: the words of a text in colors, and below them the page of `chumoku explain --html` in a frame.

const FRAMED = 'chumoku:';
// The parts of that page's link that also apply to another text.
const LASTING = ['layer', 'head', 'view', 'sort', 'scale', 'root', 'least', 'order'];

// The explanation data of the page.
function dataOf(html) {
  const data = new DOMParser().parseFromString(html, 'text/html').getElementById('data');
  return data && JSON.parse(data.textContent);
}

// Shows a text whose words have the color of their effect: blue supports the answer, orange opposes it.
function coloredWords(D) {
  const { scores, whole, beyond = [] } = D.attribution, digits = D.kind === 'encoder' ? 3 : 2;
  const words = [...D.words.map((w, i) => ({ ...w, effect: whole ? whole[i] : scores[i] })), ...beyond.map(w => ({ text: w.text, effect: w.whole ?? w.score }))];
  const most = words.reduce((m, w) => Math.max(m, w.special ? 0 : Math.abs(w.effect) || 0), 0) || 1, parts = [];
  const text = D.text.replaceAll('\u001f', '\n');
  // Positions of the words. A language model reads the end of a long text, so the search starts there.
  const places = new Map(), isEnd = D.kind === 'language_model';
  let edge = isEnd ? text.length : 0;
  for (const word of isEnd ? [...words].reverse() : words) {
    const { text: said, special } = word, from = isEnd ? edge - said.length : edge;
    const found = special || from < 0 ? -1 : isEnd ? text.lastIndexOf(said, from) : text.indexOf(said, from);
    if (found < 0) continue;
    places.set(word, found);
    edge = isEnd ? found : found + said.length;
  }
  let at = 0;
  for (const word of words) {
    const found = places.get(word), { text: said, effect } = word;
    if (found === undefined) continue;
    const node = el('span', { class: effect < 0 ? 'against' : 'for', text: said, title: T.effectTip(said, signed(effect ?? 0, digits)) });
    node.style.setProperty('--share', (Math.abs(effect) / most * 62 || 0).toFixed(1) + '%');
    parts.push(text.slice(at, found), node);
    at = found + said.length;
  }
  parts.push(text.slice(at));
  return el('p', { class: 'colored', dir: 'auto', ...isKana(text) && { lang: 'ja' } }, ...parts);
}

// A place for explanations: colored words (if they are shown here) and the frame.
function whyBox(box, { words = true } = {}) {
  let now = null, link = new URLSearchParams(), frame = null, shown = '';
  const looks = () => `${S.lang} ${root.dataset.theme}`;
  const nameOf = () => {
    const params = new URLSearchParams(link);
    params.set('lang', S.lang);
    params.set('theme', root.dataset.theme);
    return FRAMED + params;
  };
  const stage = el('div', { class: 'stage-of-frame' }), colored = el('section', { class: 'card' });
  const button = el('button', { type: 'button' }), note = el('p', { class: 'note' }), offer = el('section', { class: 'card offer', hidden: true }, note, el('div', { class: 'acts' }, button));
  box.append(offer);
  // The new frame replaces the old one after it has rendered.
  function place() {
    const next = el('iframe', { name: nameOf(), title: T.frameTitle, sandbox: 'allow-scripts allow-downloads', class: 'coming', srcdoc: now.html });
    stage.querySelectorAll('.coming').forEach(old => old.remove());
    stage.append(next);
    frame = next;
    shown = looks();
  }
  // The page in the frame has both languages: it is opened again in the other one. Browsers do not render a frame on a
  // hidden tab, which therefore waits until its tab opens.
  function update() {
    if (now && frame && shown !== looks() && box.getClientRects().length) place();
  }
  entries.push(update);
  addEventListener('message', e => {
    const said = e.data?.chumoku;
    if (!frame || e.source !== frame.contentWindow || !said) return;
    if (said.height) {
      frame.style.height = Math.min(20000, Number(said.height) || 0) + 'px';
      if (frame.classList.contains('coming')) {
        [...stage.children].filter(old => old !== frame).forEach(old => old.remove());
        frame.classList.remove('coming');
        box.removeAttribute('aria-busy');
      }
    }
    if (typeof said.link === 'string') {
      const params = new URLSearchParams(said.link);
      link = new URLSearchParams(LASTING.filter(name => params.has(name)).map(name => [name, params.get(name)]));
    }
  });
  function draw() {
    if (!now) return;
    const { D } = now;
    colored.hidden = !(words && D?.attribution);
    if (colored.hidden) return;
    const isNear = D.kind === 'encoder', legend = (name, text) => el('span', {}, el('i', { class: name === 'for' ? 'swatch' : 'swatch against' }), text);
    colored.replaceChildren(el('h2', { text: isNear ? T.effectsNear : T.effects(clip(D.attribution.class)) }), coloredWords(D), el('p', { class: 'note keyline' }, legend('for', isNear ? T.nearer : T.speaksFor), legend('against', isNear ? T.farther : T.speaksAgainst)));
  }
  let offered = null;
  function drawOffer() {
    offer.hidden = !offered;
    if (!offered) return;
    note.hidden = !offered.note;
    note.textContent = offered.note?.() ?? '';
    button.textContent = offered.label();
  }
  redraws.push(() => {
    draw();
    drawOffer();
    update();
  });
  const remove = () => { now = frame = null; stage.replaceChildren(); box.replaceChildren(offer); box.removeAttribute('aria-busy'); };
  return {
    show(html) {
      now = { html, D: dataOf(html) };
      offered = null;
      drawOffer();
      box.replaceChildren(offer, colored, stage);
      draw();
      place();
    },
    wait() { box.setAttribute('aria-busy', 'true'); },
    clear() { offered = null; drawOffer(); remove(); },
    // A button for explanations that take long or are seldom needed.
    offer(label, act, note) {
      remove();
      offered = { label, note };
      button.onclick = act;
      drawOffer();
    },
  };
}

// Longer texts are explained on demand, because each of their words is left out in turn.
const LONG = 1500;
