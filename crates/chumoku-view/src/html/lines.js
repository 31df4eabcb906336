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
  let size, found = { numbers: null };

  // The weights to draw, as q * columns + k, in levels from faint to strong; updated when they change.
  function edges() {
    const numbers = model.numbers(), least = model.least();
    if (found.numbers === numbers && found.least === least) return found;
    found = { numbers, least, count: 0, levels: Array.from({ length: LEVELS }, () => []) };
    for (let i = 0; i < numbers.length; i++) {
      if (!(numbers[i] >= least)) continue;
      found.count += 1;
      found.levels[Math.min(LEVELS - 1, Math.floor(numbers[i] * LEVELS))].push(i);
    }
    return found;
  }
  const list = () => edges().levels.flat().sort((a, b) => a - b);

  function draw() {
    const room = stage.parentElement.clientWidth, titles = model.titles();
    const [leftWidth, rightWidth] = wordWidths.map((width, side) => Math.max(width, Math.ceil(widthOf(titles[side])) - NUMBER));
    const width = Math.min(room - (head + longest * step > 860 ? 16 : 0), leftWidth + rightWidth + 2 * NUMBER + 460);
    size = { width, height: head + longest * step + 6 };
    const { ctx, view } = viewport(stage, size), css = colors(), numbers = model.numbers(), { levels } = edges(), chosen = model.chosen();
    const x0 = NUMBER + leftWidth + 12, x1 = width - NUMBER - rightWidth - 12, bend = (x1 - x0) * .45;
    const Y = i => head + (i + .5) * step - view.y, isIn = y => y > head - step && y < view.h + step;
    const curve = i => {
      const a = Y(Math.floor(i / columns)), b = Y(i % columns);
      if (Math.max(a, b) < head || Math.min(a, b) > view.h) return;
      ctx.moveTo(x0, a);
      ctx.bezierCurveTo(x0 + bend, a, x1 - bend, b, x1, b);
    };
    const mine = i => chosen && (chosen.side ? i % columns : Math.floor(i / columns)) === chosen.i;
    ctx.fillStyle = css.card;
    ctx.fillRect(0, 0, view.w, view.h);
    ctx.save();
    ctx.beginPath(); ctx.rect(0, head, view.w, view.h); ctx.clip();
    ctx.strokeStyle = css.accent;
    let drawn = 0;
    // Lines of the chosen word are drawn last, above the others.
    for (const own of chosen ? [false, true] : [true]) {
      levels.forEach((level, at) => {
        const weight = (at + .5) / LEVELS;
        ctx.globalAlpha = own ? .25 + .75 * Math.sqrt(weight) : .16;
        ctx.lineWidth = own ? .8 + 5 * weight : 1;
        ctx.beginPath();
        for (const i of level) {
          if (model.row(Math.floor(i / columns)) === 'none' || (chosen && mine(i) !== own)) continue;
          curve(i);
          drawn += 1;
        }
        ctx.stroke();
      });
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
  return { draw, drawSoon, reveal, list, count: () => edges().count };
}
