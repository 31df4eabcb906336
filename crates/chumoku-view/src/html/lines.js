// Words in two columns with a line for each weight above the threshold, on a canvas that draws only the visible part.
// `model` describes the drawing:
//   names [left, right], special [left, right], numbers() the weights (rows on the left), rough(), least() the smallest
//   that is drawn, chosen() { side, i } or null, row(q) 'shown' | 'new' | 'none', titles() of the columns,
//   pick(side, i), hover({ side, i } or null)
function makeLines(stage, model) {
  const [lefts, rights] = model.names, rows = lefts.length, columns = rights.length, longest = Math.max(rows, columns);
  const step = longest > 60 ? 20 : 26, head = 30, NUMBER = 56, LEVELS = 16;
  const labels = model.names.map(list => list.map(w => fitText(clip(w), 150)));
  const wordWidths = labels.map(list => Math.ceil(Math.max(40, ...list.map(widthOf))));
  let size, found = new Map();

  // The weights to draw, as q * columns + k, in levels from faint to strong; updated when they change.
  function edges(numbers = model.numbers()) {
    const least = model.least(), old = found.get(numbers);
    if (old?.least === least) return old;
    const next = { least, count: 0, levels: Array.from({ length: LEVELS }, () => []) };
    for (let i = 0; i < numbers.length; i++) {
      if (!(numbers[i] >= least)) continue;
      next.count += 1;
      next.levels[Math.min(LEVELS - 1, Math.floor(numbers[i] * LEVELS))].push(i);
    }
    if (found.size > 64) found = new Map();
    found.set(numbers, next);
    return next;
  }
  // The sets of weights to draw, each in a color: one head, or several.
  const sets = css => model.sets?.() ?? [{ numbers: model.numbers(), color: css.accent }];
  const list = () => edges().levels.flat().sort((a, b) => a - b);

  function draw() {
    const room = stage.parentElement.clientWidth, titles = model.titles();
    const [leftWidth, rightWidth] = wordWidths.map((width, side) => Math.max(width, Math.ceil(widthOf(titles[side])) - NUMBER));
    const width = Math.min(room - (head + longest * step > 860 ? 16 : 0), leftWidth + rightWidth + 2 * NUMBER + 460);
    size = { width, height: head + longest * step + 6 };
    const { ctx, view } = viewport(stage, size), css = colors(), numbers = model.numbers(), all = sets(css), chosen = model.chosen();
    const x0 = NUMBER + leftWidth + 12, x1 = width - NUMBER - rightWidth - 12, bend = (x1 - x0) * .45;
    const Y = i => head + (i + .5) * step - view.y, isIn = y => y > head - step && y < view.h + step;
    let shift = 0;
    const curve = i => {
      const a = Y(Math.floor(i / columns)) + shift, b = Y(i % columns) + shift;
      if (Math.max(a, b) < head || Math.min(a, b) > view.h) return;
      ctx.moveTo(x0, a);
      ctx.bezierCurveTo(x0 + bend, a, x1 - bend, b, x1, b);
    };
    const mine = i => chosen && (chosen.side ? i % columns : Math.floor(i / columns)) === chosen.i;
    ctx.fillStyle = css.card;
    ctx.fillRect(0, 0, view.w, view.h);
    ctx.save();
    ctx.beginPath(); ctx.rect(0, head, view.w, view.h); ctx.clip();
    let drawn = 0;
    // Lines of the chosen word are drawn last, above the others.
    for (const own of chosen ? [false, true] : [true]) {
      all.forEach(({ numbers, color }, set) => edges(numbers).levels.forEach((level, at) => {
        const weight = (at + .5) / LEVELS;
        ctx.strokeStyle = color;
        ctx.globalAlpha = own ? .25 + .75 * Math.sqrt(weight) : .16;
        ctx.lineWidth = (own ? .8 + 5 * weight : 1) / Math.sqrt(all.length);
        ctx.beginPath();
        // Lines of several heads run side by side.
        shift = 3 * (set - (all.length - 1) / 2);
        for (const i of level) {
          if (model.row(Math.floor(i / columns)) === 'none' || (chosen && mine(i) !== own)) continue;
          curve(i);
          drawn += 1;
        }
        ctx.stroke();
      }));
    }
    ctx.globalAlpha = 1;
    ctx.textBaseline = 'middle';
    const limit = [Math.max(0, Math.floor(view.y / step) - 1), Math.ceil((view.y + view.h) / step)];
    for (const side of [0, 1]) for (let i = limit[0]; i < Math.min(limit[1], model.names[side].length); i++) {
      const y = Y(i), isChosen = chosen && chosen.side === side && chosen.i === i, state = side ? 'shown' : model.row(i);
      if (!isIn(y) || state === 'none') continue;
      // The weight between the chosen word and this one.
      const x = chosen && chosen.side !== side ? numbers[side ? chosen.i * columns + i : i * columns + chosen.i] : NaN, isLinked = x >= model.least();
      ctx.textAlign = side ? 'left' : 'right';
      ctx.font = `${isChosen || isLinked || state === 'new' ? '650 ' : ''}${LABEL}px ${font}`;
      ctx.fillStyle = isChosen || state === 'new' ? css.accent : model.special[side][i] ? css.soft : css.ink;
      ctx.globalAlpha = chosen && !isChosen && !isLinked ? .6 : 1;
      ctx.fillText(labels[side][i], side ? x1 + 8 : x0 - 8, y);
      ctx.globalAlpha = 1;
      ctx.font = `${isLinked ? 12 : 11}px ${font}`;
      ctx.fillStyle = isLinked ? css.ink : css.soft;
      ctx.textAlign = side ? 'right' : 'left';
      // The word's share if it is legible, otherwise its number in the text.
      ctx.fillText(isLinked ? (model.rough() ? '≈' : '') + percent(x, 1) + ' %' : i + 1, side ? width - 4 : 4, y);
    }
    ctx.restore();
    ctx.font = `12px ${font}`;
    ctx.fillStyle = css.soft;
    ctx.textBaseline = 'middle';
    titles.forEach((text, side) => { ctx.textAlign = side ? 'left' : 'right'; ctx.fillText(text, side ? x1 + 8 : x0 - 8, head / 2); });
    stage.dataset.lines = drawn;
  }
  const drawSoon = soon(draw);
  function at(e) {
    const box = stage.getBoundingClientRect(), i = Math.floor((e.clientY - box.top - head + stage.scrollTop) / step), side = Number(e.clientX - box.left > size.width / 2);
    return e.clientY - box.top >= head && i >= 0 && i < model.names[side].length && (side || model.row(i) !== 'none') ? { side, i } : null;
  }
  function reveal() {
    const chosen = model.chosen();
    if (!chosen) return;
    const y = chosen.i * step, room = stage.clientHeight - head;
    stage.scrollTop = Math.min(y - 2 * step, Math.max(stage.scrollTop, y + 3 * step - room));
  }
  stage.addEventListener('pointermove', e => {
    const spot = at(e);
    stage.style.cursor = spot ? 'pointer' : 'default';
    model.hover(spot);
  });
  stage.addEventListener('pointerleave', () => model.hover(null));
  stage.addEventListener('click', e => { const spot = at(e); if (spot) model.pick(spot.side, spot.i); });
  stage.addEventListener('scroll', drawSoon);
  stage.addEventListener('keydown', e => {
    const { side, i } = model.held() || { side: 0, i: -1 }, count = model.names[side].length;
    const to = { ArrowUp: [side, i - 1], ArrowDown: [side, i + 1], ArrowLeft: [0, i], ArrowRight: [1, i], Home: [side, 0], End: [side, count - 1] }[e.key];
    if (!to) return;
    e.preventDefault();
    model.hold(to[0], within(to[1], model.names[to[0]].length));
    reveal();
  });
  return { draw, drawSoon, reveal, list, count: () => sets(colors()).reduce((sum, { numbers }) => sum + edges(numbers).count, 0) };
}
