-- For whom a room counts, so that one account can't take all that there may be. Rooms of before count for their owner if they have but one.

ALTER TABLE rooms ADD COLUMN creator TEXT;

UPDATE rooms SET creator = (
    SELECT MIN(member) FROM room_affiliations WHERE room = rooms.id AND affiliation = 3 HAVING COUNT(*) = 1);

CREATE INDEX rooms_by_creator ON rooms (creator);
