-- What rooms say of single users, such as their hats, apart from the rest of the room's document: it goes with the account.

CREATE TABLE room_users (
    room     INTEGER NOT NULL REFERENCES rooms (id) ON DELETE CASCADE,
    place    INTEGER NOT NULL,
    -- A bare JID, of this server or of another.
    member   TEXT NOT NULL,
    document BLOB NOT NULL,
    PRIMARY KEY (room, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX room_users_by_member ON room_users (member);
