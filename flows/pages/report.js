// The parts of the report that answer (after tokens.js): a playground that encodes as the tokenizer does, and the
// vocab with its merges. Reads what `packed.py` wrote into the page; asks no network. Everything
// from the tokenizer reaches the page as text, never as HTML.

// ---- what the page carries ----------------------------------------------------------------------

async function inflated(text) {
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function sectionsOf(content, lengths) {
  const sections = {};
  let at = 0;
  for (const [name, length] of Object.entries(lengths)) {
    const values = new Float64Array(length);
    for (let i = 0; i < length; i++) {
      let value = 0, scale = 1, byte;
      do {
        byte = content[at++];
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte > 127);
      values[i] = value;
    }
    sections[name] = values;
  }
  return sections;
}

function fromDifferences(values) {
  let sum = 0;
  return values.map((value) => (sum += value % 2 ? -(value + 1) / 2 : value / 2));
}

class Vocab {
  constructor(about, sections) {
    this.about = about;
    this.ids = fromDifferences(sections.ids);
    this.tokens = new Map();
    this.rankOf = new Map(); // id of a result -> rank
    this.left = sections.left;
    this.right = sections.right;
    this.results = fromDifferences(sections.results);
    this.byteIds = sections.bytes;
    this.byteIds.forEach((id, byte) => this.tokens.set(id, String.fromCharCode(byte)));
    let at = 0;
    fromDifferences(sections.others).forEach((id, i) => {
      const end = at + sections.otherLengths[i];
      this.tokens.set(id, String.fromCharCode(...sections.otherBytes.subarray(at, end)));
      at = end;
    });
    for (let rank = 0; rank < this.results.length; rank++) {
      const id = this.results[rank];
      this.tokens.set(id, this.tokens.get(this.left[rank]) + this.tokens.get(this.right[rank]));
      if (!this.rankOf.has(id)) this.rankOf.set(id, rank);
    }
    this.specialIds = new Set(Object.values(about.special));
    this.placeOf = new Map();
    this.ids.forEach((id, place) => this.placeOf.set(id, place));
    this.byIdNames = ["made", "used", "signs"].filter((name) => name in sections);
    for (const name of this.byIdNames) this[name] = sections[name];
  }

  valueOf(name, id) {
    return this[name] ? this[name][this.placeOf.get(id)] : null;
  }
}

// ---- text to ids --------------------------------------------------------------------------------

const CUT = 1, ACCEPT = 4, AFTER_GAP = 8, DEAD = 16, STOP = 32;
const PAIR = 2 ** 26;

class Splitter {
  // The automaton of the split pattern, over classes of characters that the trainer knew.
  constructor(shape, sections) {
    this.shape = shape;
    this.rows = sections.rows;
    this.flags = sections.flags;
    this.classes = new Uint8Array(0x110000);
    let point = 0;
    for (let i = 0; i < sections.classes.length; i += 2) {
      this.classes.fill(sections.classes[i], point, (point += sections.classes[i + 1]));
    }
  }

  split(text) {
    if (!text) return [];
    const characters = Array.from(text);
    const points = characters.map((character) => character.codePointAt(0));
    const size = points.length;
    const starts = new Uint8Array(size + 1);
    const { columns, lastLineFeed, end } = this.shape;
    let position = 0, row = 0, attempt = 0, accept = 0, gapEnd = -1;
    for (;;) {
      let column = end;
      if (position < size) {
        const last = position === size - 1 && points[position] === 10;
        column = last ? lastLineFeed : this.classes[points[position]];
      }
      const move = row * columns + column, flags = this.flags[move];
      if (flags & CUT) {
        starts[position] = 1;
        attempt = position;
      }
      if (flags & ACCEPT) accept = position;
      if (flags & STOP) break;
      if (flags & DEAD) {
        if (accept > attempt) {
          position = accept;
          row = 0;
        } else {
          if (gapEnd === attempt) starts[attempt] = 0;
          position = attempt + 1;
          row = 1;
        }
        continue;
      }
      if (flags & AFTER_GAP) gapEnd = position;
      row = this.rows[move];
      position++;
    }
    const words = [];
    for (let i = 0; i < size; ) {
      let next = i + 1;
      while (next < size && !starts[next]) next++;
      words.push(characters.slice(i, next).join(""));
      i = next;
    }
    return words;
  }
}

class Encoder {
  constructor(vocab, sections) {
    this.vocab = vocab;
    this.splitter = vocab.about.split && new Splitter(vocab.about.split, sections);
    this.ranks = new Map();
    for (let rank = vocab.left.length - 1; rank >= 0; rank--) {
      this.ranks.set(vocab.left[rank] * PAIR + vocab.right[rank], rank);
    }
    this.words = new Map();
    const special = Object.keys(vocab.about.special).sort((a, b) => b.length - a.length);
    const escaped = special.map((token) => token.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"));
    this.special = special.length ? new RegExp(escaped.join("|"), "gu") : null;
    this.whole = vocab.about.ignoreMerges ? this.ordinaryTokens() : null;
  }

  ordinaryTokens() {
    const ids = new Map();
    for (const [id, token] of this.vocab.tokens) {
      if (!this.vocab.specialIds.has(id)) ids.set(token, id);
    }
    return ids;
  }

  encode(text, withSpecial) {
    const clean = text.toWellFormed ? text.toWellFormed() : new TextDecoder().decode(new TextEncoder().encode(text));
    if (!withSpecial || !this.special) return this.ordinary(clean);
    const ids = [];
    let end = 0;
    for (const found of clean.matchAll(this.special)) {
      for (const id of this.ordinary(clean.slice(end, found.index))) ids.push(id);
      ids.push(this.vocab.about.special[found[0]]);
      end = found.index + found[0].length;
    }
    for (const id of this.ordinary(clean.slice(end))) ids.push(id);
    return ids;
  }

  ordinary(text) {
    const ids = [];
    const words = this.splitter ? this.splitter.split(text) : text ? [text] : [];
    for (const word of words) {
      let known = this.words.get(word);
      if (!known) this.words.set(word, (known = this.encodeWord(toBytes(word))));
      for (const id of known) ids.push(id);
    }
    return ids;
  }

  // Joins the pair of lowest rank, the leftmost of equals, until no merge is left.
  encodeWord(bytes) {
    if (this.whole && this.whole.has(bytes)) return [this.whole.get(bytes)];
    const size = bytes.length;
    const symbols = Array.from(bytes, (byte) => this.vocab.byteIds[byte.charCodeAt(0)]);
    const behind = symbols.map((_, i) => i + 1), before = symbols.map((_, i) => i - 1);
    const rankAt = (at) =>
      symbols[at] < 0 || behind[at] >= size
        ? undefined
        : this.ranks.get(symbols[at] * PAIR + symbols[behind[at]]);
    const heap = new Heap();
    const consider = (at) => {
      const rank = at < 0 ? undefined : rankAt(at);
      if (rank !== undefined) heap.push(rank * PAIR + at);
    };
    for (let at = 0; at < size - 1; at++) consider(at);
    for (let top = heap.pop(); top !== undefined; top = heap.pop()) {
      const rank = Math.floor(top / PAIR), at = top % PAIR;
      if (rankAt(at) !== rank) continue;
      symbols[at] = this.vocab.results[rank];
      symbols[behind[at]] = -1;
      behind[at] = behind[behind[at]];
      if (behind[at] < size) before[behind[at]] = at;
      consider(at);
      consider(before[at]);
    }
    return symbols.filter((symbol) => symbol >= 0);
  }
}

class Heap {
  constructor() {
    this.items = [];
  }

  push(item) {
    const items = this.items;
    let at = items.length;
    while (at > 0 && items[(at - 1) >> 1] > item) {
      items[at] = items[(at - 1) >> 1];
      at = (at - 1) >> 1;
    }
    items[at] = item;
  }

  pop() {
    const items = this.items, top = items[0], last = items.pop();
    if (!items.length) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && items[child + 1] < items[child]) child++;
      if (items[child] >= last) break;
      items[at] = items[child];
      at = child;
    }
    items[at] = last;
    return top;
  }
}

// ---- the playground -----------------------------------------------------------------------------

const MOST_SHOWN = 4000; // tokens; all of them are counted

function startPlayground(vocab, encoder, choose) {
  const input = byId("text"), output = byId("encoded"), special = byId("with-special");
  const plain = byId("ids");
  const update = () => {
    const ids = encoder.encode(input.value, special ? special.checked : false);
    const bytes = new TextEncoder().encode(input.value).length;
    const said = [`${number(ids.length)} token${ids.length === 1 ? "" : "s"}`,
      `${number(Array.from(input.value).length)} characters`, `${number(bytes)} bytes`];
    if (ids.length) said.push(`${(bytes / ids.length).toFixed(2)} bytes/token`);
    byId("counted").textContent = said.join(" · ");
    output.replaceChildren(...ids.slice(0, MOST_SHOWN).map((id, i) => {
      const token = vocab.tokens.get(id);
      const kind = vocab.specialIds.has(id) ? "special" : `h${i % 5}`;
      const chip = element("button", { type: "button", class: `chip ${kind}`, title: `id ${id}` }, ...shown(token));
      chip.addEventListener("click", () => choose(id));
      if (!token.endsWith("\n")) return chip;
      const line = element("span", { class: "line" }, chip);
      return line;
    }));
    if (ids.length > MOST_SHOWN) output.append(` … and ${number(ids.length - MOST_SHOWN)} more`);
    plain.textContent = ids.slice(0, MOST_SHOWN).join(" ") + (ids.length > MOST_SHOWN ? " …" : "");
  };
  input.addEventListener("input", update);
  if (special) special.addEventListener("change", update);
  update();
}

// ---- the vocab ----------------------------------------------------------------------------------

const ROWS = 25;
const SIGNS = ["special", "junk", "unreachable", "one document", "suspicious", "part of a character"];

function startVocab(vocab) {
  const query = byId("query"), order = byId("order"), only = byId("only"), body = byId("rows");
  const signsOf = (id) => {
    const bits = vocab.valueOf("signs", id) || 0;
    return SIGNS.filter((_, bit) => bits & (1 << bit));
  };
  const orders = {
    id: null,
    most: (a, b) => vocab.valueOf("used", b) - vocab.valueOf("used", a) || a - b,
    least: (a, b) => vocab.valueOf("used", a) - vocab.valueOf("used", b) || a - b,
    longest: (a, b) => vocab.tokens.get(b).length - vocab.tokens.get(a).length || a - b,
  };
  let found = [], from = 0;

  const row = (id) => {
    const token = vocab.tokens.get(id);
    const link = element("button", { type: "button", class: "link" }, box(token));
    link.addEventListener("click", () => choose(id));
    const cells = [element("td", { class: "n" }, String(id)), element("td", {}, link),
      element("td", { class: "n" }, String(token.length))];
    for (const name of ["made", "used"]) {
      if (vocab[name]) cells.push(element("td", { class: "n" }, number(vocab.valueOf(name, id))));
    }
    cells.push(element("td", { class: "signs" }, signsOf(id).join(", ")));
    return element("tr", {}, ...cells);
  };

  const page = () => {
    body.replaceChildren(...found.slice(from, from + ROWS).map(row));
    const end = Math.min(from + ROWS, found.length);
    byId("found").textContent = found.length
      ? `${number(from + 1)}–${number(end)} of ${number(found.length)} tokens`
      : "no token like that";
    byId("previous").disabled = from === 0;
    byId("next").disabled = end >= found.length;
  };

  const search = () => {
    const text = query.value, bytes = toBytes(text.toWellFormed ? text.toWellFormed() : text);
    const asId = /^\d+$/.test(text) && vocab.tokens.has(Number(text)) ? Number(text) : null;
    const bit = only.value === "" ? 0 : 1 << Number(only.value);
    found = Array.from(vocab.ids).filter((id, place) =>
      (!bytes || id === asId || vocab.tokens.get(id).includes(bytes)) &&
      (!bit || (vocab.signs && vocab.signs[place] & bit)));
    const compare = orders[order.value];
    if (compare) found.sort(compare);
    if (asId !== null) found = [asId, ...found.filter((id) => id !== asId)];
    // What is exactly the text asked for comes first.
    const exact = bytes ? found.findIndex((id) => vocab.tokens.get(id) === bytes) : -1;
    if (exact > 0) found.unshift(...found.splice(exact, 1));
    from = 0;
    page();
  };

  const tree = (id) => {
    const rank = vocab.rankOf.get(id);
    const facts = [`id ${id}`];
    if (rank !== undefined) facts.push(`rank ${number(rank)}`);
    if (vocab.made) facts.push(`${number(vocab.valueOf("made", id))}×`);
    const item = element("li", {}, element("span", { class: "node" }, box(vocab.tokens.get(id)),
      element("small", {}, facts.join(" · "))));
    if (rank !== undefined) {
      item.append(element("ul", {}, tree(vocab.left[rank]), tree(vocab.right[rank])));
    }
    return item;
  };

  function choose(id) {
    const token = vocab.tokens.get(id);
    const facts = [["id", String(id)], ["bytes", Array.from(token, (byte) => hex(byte.charCodeAt(0), 2)).join(" ")]];
    if (vocab.rankOf.has(id)) facts.push(["rank", number(vocab.rankOf.get(id))]);
    if (vocab.made) facts.push(["came about in training text", `${number(vocab.valueOf("made", id))} times`]);
    if (vocab.used) facts.push(["left in the end", `${number(vocab.valueOf("used", id))} times`]);
    const signs = signsOf(id);
    if (signs.length) facts.push(["marked", signs.join(", ")]);
    const longer = [];
    for (let rank = 0; rank < vocab.left.length && longer.length < 60; rank++) {
      if (vocab.left[rank] === id || vocab.right[rank] === id) longer.push(vocab.results[rank]);
    }
    const list = element("dl", {});
    for (const [name, value] of facts) list.append(element("dt", {}, name), element("dd", {}, value));
    const parts = [element("h3", {}, "Token ", box(token)), list];
    if (vocab.rankOf.has(id)) {
      parts.push(element("h4", {}, "Merges that make it"), element("ul", { class: "tree" }, tree(id)));
    } else if (vocab.specialIds.has(id)) {
      parts.push(element("p", {}, "A special token: no merge makes it."));
    }
    if (longer.length) {
      const links = longer.map((other) => {
        const link = element("button", { type: "button", class: "link" }, box(vocab.tokens.get(other)));
        link.addEventListener("click", () => choose(other));
        return link;
      });
      parts.push(element("h4", {}, "Longer tokens that take it in"), element("p", { class: "flow" }, ...links));
    }
    const detail = byId("detail");
    detail.replaceChildren(...parts);
    detail.hidden = false;
    detail.focus({ preventScroll: true });
    detail.scrollIntoView({ block: "nearest" });
  }

  byId("previous").addEventListener("click", () => { from = Math.max(0, from - ROWS); page(); });
  byId("next").addEventListener("click", () => { from += ROWS; page(); });
  for (const control of [query, order, only]) control.addEventListener("input", search);
  search();
  return choose;
}

// ---- start --------------------------------------------------------------------------------------

async function start() {
  const about = JSON.parse(byId("about").textContent);
  const sections = sectionsOf(await inflated(byId("packed").textContent), about.sections);
  const vocab = new Vocab(about, sections);
  const choose = startVocab(vocab);
  let encoder = null;
  if (about.overBytes) {
    encoder = new Encoder(vocab, sections);
    startPlayground(vocab, encoder, choose);
  }
  document.documentElement.classList.add("ready");
  return { vocab, encoder, visible };
}

const report = start();
report.catch((error) => {
  for (const note of document.querySelectorAll(".failed")) {
    note.hidden = false;
    note.textContent = `This part needs a newer browser: ${error.message}`;
  }
});
