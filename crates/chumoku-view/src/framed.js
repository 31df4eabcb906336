'use strict';
// Links of a page, with and without a frame around it.
// The address holds the state, so a link shows what its sender saw.
// A frame of the service's page has no address: the name of the frame holds the link, and messages report it to the outer page.
const FRAMED = 'chumoku:', isFramed = parent !== self && self.name.startsWith(FRAMED);
const tell = said => parent.postMessage({ chumoku: said }, '*');
const linked = () => new URLSearchParams(isFramed ? self.name.slice(FRAMED.length) : location.hash.slice(1));
function link(params) {
  if (isFramed) {
    self.name = FRAMED + params;
    tell({ link: String(params) });
    return;
  }
  // Some browsers refuse this for a file on disk; the page then works without the link.
  try { history.replaceState(null, '', '#' + params); } catch { /* the page works without it */ }
}
if (isFramed) {
  // Browsers do not run observers in hidden frames, so the first height is reported directly.
  const tellHeight = () => tell({ height: Math.ceil(document.body.getBoundingClientRect().height) });
  addEventListener('load', tellHeight);
  new ResizeObserver(tellHeight).observe(document.body);
}
