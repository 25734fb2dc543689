// The tokens that came and went, searched (after tokens.js); asks no network.

const MOST_FOUND = 400; // tokens shown at a time

function startSearch(kind, tokens) {
  const query = byId(`query-${kind}`), list = byId(`found-${kind}`), said = byId(`said-${kind}`);
  const search = () => {
    const wanted = toBytes(query.value);
    const found = tokens.filter((token) => token.includes(wanted));
    const parts = found.slice(0, MOST_FOUND).flatMap((token) => [box(token), " "]);
    list.replaceChildren(...parts);
    const more = found.length - MOST_FOUND;
    said.textContent = `${number(found.length)} of ${number(tokens.length)} tokens`
      + (more > 0 ? `, the first ${number(MOST_FOUND)} shown` : "");
  };
  query.addEventListener("input", search);
  search();
}

for (const [kind, tokens] of Object.entries(JSON.parse(byId("vocab").textContent))) {
  startSearch(kind, tokens.map(atob));
}
document.documentElement.classList.add("ready");
