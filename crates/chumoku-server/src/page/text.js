// The tab for one text.
function textRoom() {
  const models = modelsOf('text', model => predicts(model) && !model.reads_pairs);
  if (!models.any) return false;
  const field = $('text-in'), answer = answerBox($('text-answer')), why = whyBox($('text-why'));
  const valuesOf = columnFields($('text-columns'), () => changed());
  async function explain(body, signal) {
    why.wait();
    why.show(await askText('explain', { ...body, html: true }, signal));
  }
  // The answer is shown only for the text that it belongs to.
  const changed = whileTyping(async signal => {
    try {
      await look(signal);
    } catch (error) {
      if (!isAbort(error)) { answer.clear(); why.clear(); }
      throw error;
    }
  });
  async function look(signal) {
    const model = models.now, text = field.value, columns = valuesOf(model);
    if (!text.trim()) { answer.clear(); why.clear(); return; }
    answer.wait();
    const found = await answerTo(model, text, columns, signal);
    answer.show(found, text);
    sayAloud(inWords(found));
    const body = { model: model.model_id, inputs: text, ...Object.keys(columns).length && { columns } };
    if (text.length > LONG) {
      why.offer(() => T.explainNow, () => explain(body).catch(error => showProblem(error)), () => T.explainLong(text.length));
      return;
    }
    why.wait();
    await pause(250, signal);
    await explain(body, signal);
  }
  keep(field);
  field.addEventListener('input', changed);
  models.onChange(() => { why.clear(); answer.clear(); valuesOf(models.now); changed(); });
  valuesOf(models.now);
  if (field.value) changed();
  return true;
}
