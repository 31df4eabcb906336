// Requests to the service: the key, errors in plain words, streams, and requests while the user types.

// An error: a name in `problems`, and the message of the service.
class Refused extends Error {
  constructor(why, { detail = '', argument } = {}) {
    super(why);
    Object.assign(this, { why, detail, argument });
  }
}
const isAbort = error => error.name === 'AbortError';
const pause = (time, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, time);
  signal?.addEventListener('abort', () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
});

// ---- the key ----
let asking = null, keyNow = remembered('sessionStorage', 'key');
// Prompts for the key, once for all requests that need it.
function askForKey() {
  asking ??= new Promise((resolve, reject) => {
    const dialog = $('key-dialog'), field = $('key-in'), old = remembered('sessionStorage', 'key');
    $('key-wrong').hidden = old === null;
    field.value = '';
    const end = act => { dialog.close(); asking = null; act(); };
    $('key-form').onsubmit = e => {
      e.preventDefault();
      const key = field.value.trim();
      if (!key) return;
      remember('sessionStorage', 'key', key);
      keyNow = key;
      end(resolve);
    };
    $('key-cancel').onclick = () => end(() => reject(new Refused('key')));
    dialog.oncancel = e => { e.preventDefault(); $('key-cancel').onclick(); };
    dialog.showModal();
    field.focus();
  });
  return asking;
}

// ---- a request ----
function refusedBy(response, detail) {
  // A text may be short enough for a prediction, but too long for an explanation.
  const isCostly = /--max-(answer|explain)/.test(detail);
  const why = { 401: 'key', 403: 'forbidden', 404: 'gone', 408: 'late', 504: 'late', 413: isCostly ? 'late' : 'large', 400: 'wrong', 415: 'wrong', 422: 'wrong', 424: 'failed', 429: 'busy', 503: 'ending' }[response.status];
  const argument = why === 'large' ? S.info?.max_input_characters : response.status;
  return new Refused(why ?? 'other', { detail, argument });
}
async function detailOf(response) {
  try { return (await response.json()).error ?? ''; } catch { return ''; }
}
// Returns a successful response. Requests that are refused because of load are retried a few times.
async function request(path, body, signal) {
  for (let tries = 0; ; tries++) {
    const headers = { Accept: 'application/json', 'Accept-Language': S.lang };
    const key = keyNow;
    // A header cannot contain other characters, so such a key is wrong.
    if (key) headers.Authorization = 'Bearer ' + key.replace(/[^\x20-\x7e]/g, '?');
    const options = { signal, headers, cache: 'no-store' };
    if (body) { options.method = 'POST'; options.body = JSON.stringify(body); headers['Content-Type'] = 'application/json'; }
    let response;
    try {
      response = await fetch(path, options);
    } catch (error) {
      throw isAbort(error) ? error : new Refused('lost');
    }
    if (response.ok) return response;
    if (response.status === 401) {
      // Another request may have prompted for it meanwhile.
      if (key === keyNow) await askForKey();
      signal?.throwIfAborted();
      continue;
    }
    const detail = await detailOf(response);
    if (response.status !== 429 || tries === 4) throw refusedBy(response, detail);
    await pause(1000 * Math.min(10, Number(response.headers.get('Retry-After')) || 1), signal);
  }
}
async function whole(response, read) {
  try { return await read(response); } catch (error) { throw isAbort(error) ? error : new Refused('broken'); }
}
const ask = async (path, body, signal) => whole(await request(path, body, signal), response => response.json());
const askText = async (path, body, signal) => whole(await request(path, body, signal), response => response.text());

// Iterates over the events of a stream.
async function* events(path, body, signal) {
  const response = await request(path, { ...body, stream: true }, signal), reader = response.body.getReader(), decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const { done, value } = await whole(reader, reader => reader.read());
    if (done) throw new Refused('broken');
    text += decoder.decode(value, { stream: true });
    const parts = text.split('\n\n');
    text = parts.pop();
    for (const part of parts) {
      const data = part.replace(/^data: /, '');
      if (data === '[DONE]') return;
      const event = JSON.parse(data);
      if (event.error_type) throw new Refused(event.error_type === 'Timeout' ? 'late' : event.error_type === 'Unhealthy' ? 'ending' : 'failed', { detail: event.error });
      yield event;
    }
  }
}

// ---- problems ----
let problemNow = null;
function showProblem(error, again) {
  if (isAbort(error)) return;
  if (!(error instanceof Refused)) throw error;
  problemNow = { error, again };
  drawProblem();
}
function drawProblem() {
  $('problem').hidden = !problemNow;
  if (!problemNow) return;
  const { error: { why, detail, argument }, again } = problemNow, said = T.problems[why];
  $('problem-text').textContent = typeof said === 'function' ? said(argument) : said;
  $('problem-detail').hidden = !detail;
  $('problem-detail').textContent = detail ? T.serviceSays(detail) : '';
  $('problem-again').hidden = !again;
}
function noProblem() { problemNow = null; drawProblem(); }
$('problem-again').addEventListener('click', () => { const { again } = problemNow; noProblem(); again(); });
redraws.push(drawProblem);

// Requests while the user types: sent soon after the last key press. Older requests are cancelled, so that no answer comes late.
function whileTyping(run, wait = 200) {
  let timer = 0, control = null;
  const start = async () => {
    control = new AbortController();
    const { signal } = control;
    try {
      await run(signal);
      if (!signal.aborted) noProblem();
    } catch (error) {
      if (!signal.aborted) showProblem(error, start);
    }
  };
  return () => {
    clearTimeout(timer);
    control?.abort();
    timer = setTimeout(start, wait);
  };
}
