"use strict";
// Tokens as they can be seen: what pages with a script share. Everything from a tokenizer reaches a
// page as text, never as HTML.

const byId = (id) => document.getElementById(id);
const number = (value) => value.toLocaleString("en-US");

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A token's bytes are kept as a string of characters from 0 to 255.
const toBytes = (text) => {
  let bytes = "";
  for (const byte of new TextEncoder().encode(text)) bytes += String.fromCharCode(byte);
  return bytes;
};

// ---- tokens that can be seen (the rules of visible.py) ------------------------------------------

const ONE = new RegExp(
  "[\\x00-\\x7f]|[\\xc2-\\xdf][\\x80-\\xbf]|\\xe0[\\xa0-\\xbf][\\x80-\\xbf]" +
  "|[\\xe1-\\xec\\xee\\xef][\\x80-\\xbf]{2}|\\xed[\\x80-\\x9f][\\x80-\\xbf]" +
  "|\\xf0[\\x90-\\xbf][\\x80-\\xbf]{2}|[\\xf1-\\xf3][\\x80-\\xbf]{3}|\\xf4[\\x80-\\x8f][\\x80-\\xbf]{2}" +
  "|[\\x80-\\xff]", "g");
const HIDDEN = /^[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]$/u;
const MARK = /^\p{M}$/u;
const SPELLED = { " ": "␣", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const RUN = 8; // as many of one character are written out
const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
const hex = (value, digits) => value.toString(16).toUpperCase().padStart(digits, "0");

function visible(token) {
  const pieces = [];
  const add = (bytes) => {
    const first = bytes.charCodeAt(0);
    if (bytes.length === 1 && first > 127) {
      pieces.push([true, hex(first, 2)]);
      return;
    }
    const character = utf8.decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
    if (character in SPELLED || HIDDEN.test(character)) {
      pieces.push([true, SPELLED[character] || "U+" + hex(character.codePointAt(0), 4)]);
    } else if (pieces.length && !pieces.at(-1)[0]) {
      pieces.at(-1)[1] += character;
    } else {
      pieces.push([false, (MARK.test(character) ? "◌" : "") + character]);
    }
  };
  const characters = token.match(ONE) || [];
  for (let i = 0; i < characters.length; ) {
    let end = i + 1;
    while (end < characters.length && characters[end] === characters[i]) end++;
    const times = end - i;
    for (let k = 0; k < (times > RUN ? 1 : times); k++) add(characters[i]);
    if (times > RUN) pieces.push([true, "×" + times]);
    i = end;
  }
  return pieces;
}

function shown(token, longest = 80) {
  const parts = [];
  let room = longest;
  for (const [hidden, text] of visible(token)) {
    if (room <= 0) {
      parts.push("…");
      break;
    }
    parts.push(hidden ? element("i", text === "␣" ? {} : { class: "b" }, text) : Array.from(text).slice(0, room).join(""));
    room -= text.length;
  }
  return parts;
}

const box = (token) => element("bdi", { class: "t" }, ...shown(token));
