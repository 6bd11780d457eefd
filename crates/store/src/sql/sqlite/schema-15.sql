-- Lists of the server, such as administrators, tokens and notes for the running server, a row for each entry: one text for all of them can't be
-- changed by two at a time.

CREATE TABLE lists (
    list  TEXT NOT NULL,
    name  TEXT NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (list, name)
) STRICT, WITHOUT ROWID;

CREATE TEMPORARY TABLE old_lines AS
WITH RECURSIVE lines (list, number, line, rest) AS (
    SELECT name, 0, '', CAST(bytes AS TEXT) || char(10) FROM meta
    WHERE name IN ('api-tokens', 'removed', 'journal')
    OR name LIKE 'admins/%' OR name LIKE 'blacklist/%' OR name LIKE 'whitelist/%'
    UNION ALL
    SELECT list, number + 1, substr(rest, 1, instr(rest, char(10)) - 1), substr(rest, instr(rest, char(10)) + 1)
    FROM lines WHERE rest <> ''
)
SELECT list, number, line FROM lines WHERE line <> '';

-- What an entry is named by: the name of a token, the account of a note, the time of an act; the others are their names.
INSERT OR IGNORE INTO lists (list, name, bytes)
SELECT list, CASE
    WHEN list = 'api-tokens' THEN substr(line, 1, instr(line || char(9), char(9)) - 1)
    WHEN list = 'journal' THEN printf('%016d-%06d', CAST(line AS INTEGER), number)
    WHEN list = 'removed' THEN replace(line, rtrim(line, replace(line, ' ', '')), '')
    ELSE line END,
    CASE WHEN list IN ('api-tokens', 'journal', 'removed') THEN CAST(line AS BLOB) ELSE x'' END
FROM old_lines ORDER BY list, number;

DROP TABLE old_lines;

DELETE FROM meta WHERE name IN ('api-tokens', 'removed', 'journal')
OR name LIKE 'admins/%' OR name LIKE 'blacklist/%' OR name LIKE 'whitelist/%';
