-- The tables of a project. Rows that a change removes stay, marked with its number, for as long as it can be undone.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE changes (
    number INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,       -- learn, forget, remove, move, rename, threshold, keep, import or repair
    what TEXT NOT NULL,       -- for people
    detail TEXT NOT NULL,     -- JSON: what undoing needs
    undone INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE classes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    created TEXT NOT NULL,
    added_by INTEGER NOT NULL REFERENCES changes (number),
    removed_by INTEGER REFERENCES changes (number),
    touched INTEGER NOT NULL  -- generation of its last change: readers load only what moved
);
CREATE UNIQUE INDEX class_names ON classes (name) WHERE removed_by IS NULL;
CREATE INDEX classes_touched ON classes (touched);

CREATE TABLE images (
    id INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL,
    class_id INTEGER NOT NULL REFERENCES classes (id) ON DELETE CASCADE,
    file TEXT NOT NULL,       -- the name it was given by
    media TEXT NOT NULL,
    added TEXT NOT NULL,
    features BLOB NOT NULL,   -- float32, little-endian: (1 + layers, d), final first
    added_by INTEGER NOT NULL REFERENCES changes (number),
    removed_by INTEGER REFERENCES changes (number)
);
CREATE UNIQUE INDEX live_images ON images (sha256) WHERE removed_by IS NULL;
CREATE INDEX images_of_class ON images (class_id);
CREATE INDEX images_removed ON images (removed_by) WHERE removed_by IS NOT NULL;
CREATE INDEX images_added ON images (added_by);
