"""The schema of ``words.duckdb``: tables for users, table functions over parts.

A part holds the tokens of a tokenizer, the words of a word-count table, or the splits of words by a
tokenizer. Parts have numbers; names of versions refer to them.
"""

from __future__ import annotations

FORMAT = 2  # of the file; others are made again

# Tables per kind of part. Rows of a part are contiguous, so a query reads only those.
PART_TABLES = {
    "tokens": ("token_rows", "merge_rows"),
    "words": ("word_rows",),
    "splits": ("split_rows", "use_rows"),
    "slice": ("slice_rows",),
}

_STORED = """
CREATE SCHEMA stored;
CREATE TABLE stored.state (format INTEGER, versions VARCHAR, runs VARCHAR);
CREATE TABLE stored.parts (part INTEGER, kind VARCHAR, key VARCHAR);
CREATE TABLE stored.names (kind VARCHAR, name VARCHAR, of_source VARCHAR, part INTEGER);
CREATE TABLE stored.token_rows (
    part INTEGER, id INTEGER, bytes BLOB, text VARCHAR, special BOOLEAN, rank INTEGER,
    parts INTEGER[]);
CREATE TABLE stored.merge_rows (
    part INTEGER, rank INTEGER, left_id INTEGER, right_id INTEGER, id INTEGER);
CREATE TABLE stored.word_rows (
    part INTEGER, word VARCHAR, count BIGINT, first_position BIGINT);
CREATE TABLE stored.split_rows (
    part INTEGER, word VARCHAR, count BIGINT, tokens INTEGER, ids INTEGER[]);
CREATE TABLE stored.use_rows (part INTEGER, id INTEGER, count BIGINT, made BIGINT, words BIGINT);
CREATE TABLE stored.slice_rows (part INTEGER, id INTEGER, count BIGINT);
"""

_TABLES = """
CREATE TABLE versions (
    version VARCHAR, name VARCHAR, number INTEGER, aliases VARCHAR[], digest VARCHAR,
    vocab_size INTEGER, pattern VARCHAR, created_at TIMESTAMP, words BIGINT, occurrences HUGEINT,
    corpus_digest VARCHAR, counts_digest VARCHAR, run_id VARCHAR, mlflow_run_id VARCHAR,
    comparable BOOLEAN, metrics MAP(VARCHAR, DOUBLE));
CREATE TABLE sources (
    version VARCHAR, source VARCHAR, language VARCHAR, domain VARCHAR, documents HUGEINT,
    bytes HUGEINT, held_out_bytes HUGEINT, words HUGEINT, distinct_words HUGEINT, share DOUBLE,
    weight DOUBLE, weighted_words HUGEINT, weighted_bytes HUGEINT, weighted_share DOUBLE);
CREATE TABLE chunks (
    corpus_digest VARCHAR, source VARCHAR, path VARCHAR, ordinal BIGINT, begin_byte BIGINT,
    end_byte BIGINT, digest VARCHAR);
CREATE TABLE runs (
    id VARCHAR, name VARCHAR, state VARCHAR, step VARCHAR, started_at TIMESTAMP,
    finished_at TIMESTAMP, corpus_digest VARCHAR, counts_digest VARCHAR, host VARCHAR,
    error VARCHAR, config JSON);
"""

# Digests may be abbreviated. `error` is only evaluated if the part is missing.
_FUNCTIONS = """
CREATE MACRO stored.is_called(name, version) AS
    name = version OR (starts_with(name, version) AND regexp_full_match(version, '[0-9a-f]{8,}'));
CREATE MACRO stored.part_if_there(wanted, version) AS (
    SELECT max(part) FROM stored.names WHERE kind = wanted AND stored.is_called(name, version));
CREATE MACRO stored.part_of(wanted, version) AS (
    SELECT coalesce(max(part), error('the ' || wanted || ' of ' || version || ' are not in this '
        'file yet: name them once in a query of `bpeline sql`, which adds them'))
    FROM stored.names WHERE kind = wanted AND stored.is_called(name, version));
CREATE MACRO stored.part_of_source(version, wanted) AS (
    SELECT coalesce(max(part), error('the words of ' || wanted || ' in ' || version || ' are not '
        'in this file yet: name them once in a query of `bpeline sql`, which adds them'))
    FROM stored.names
    WHERE kind = 'source' AND of_source = wanted AND stored.is_called(name, version));
CREATE MACRO merges(version) AS TABLE
    SELECT m.rank, m.id, l.bytes || r.bytes AS bytes, l.bytes AS left_bytes, r.bytes AS right_bytes,
        m.left_id, m.right_id
    FROM stored.merge_rows AS m
    JOIN stored.token_rows AS l ON l.part = m.part AND l.id = m.left_id
    JOIN stored.token_rows AS r ON r.part = m.part AND r.id = m.right_id
    WHERE m.part = stored.part_of('tokens', version)
        AND l.part = stored.part_of('tokens', version)
        AND r.part = stored.part_of('tokens', version)
    ORDER BY m.rank;
CREATE MACRO word_counts(version) AS TABLE
    SELECT word, count, first_position FROM stored.word_rows
    WHERE part = stored.part_of('words', version);
CREATE MACRO words_of_source(version, source) AS TABLE
    SELECT word, count, first_position FROM stored.word_rows
    WHERE part = stored.part_of_source(version, source);
CREATE MACRO splits(version) AS TABLE
    SELECT word, count, tokens, ids FROM stored.split_rows
    WHERE part = stored.part_of('splits', version);
CREATE MACRO tokens(version) AS TABLE
    SELECT t.id, t.bytes, t.text, t.special, t.rank, t.parts, u.count, u.made, u.words, s.slices
    FROM (SELECT * FROM stored.token_rows WHERE part = stored.part_of('tokens', version)) AS t
    LEFT JOIN (SELECT * FROM stored.use_rows
               WHERE part = stored.part_if_there('splits', version)) AS u ON u.id = t.id
    LEFT JOIN (SELECT r.id, map(list(n.of_source ORDER BY n.of_source),
                                list(r.count ORDER BY n.of_source)) AS slices
               FROM stored.slice_rows AS r JOIN stored.names AS n ON n.part = r.part
               WHERE n.kind = 'slice' AND stored.is_called(n.name, version)
               GROUP BY r.id) AS s ON s.id = t.id
    ORDER BY t.id;
"""

COMMENTS = {
    "versions": "One row for each registered version.",
    "sources": "What each version was trained on: a named source or a file, its size and weight.",
    "chunks": "The byte ranges that corpora were counted in.",
    "runs": "The runs that the catalogue knows.",
}

LAYOUT = _STORED + _TABLES + _FUNCTIONS
