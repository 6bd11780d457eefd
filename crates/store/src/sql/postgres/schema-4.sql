-- Who sees the owner's presence. Somebody who logs in is looked up in the rosters of all contacts: by the owner each is elsewhere, here they lie
-- beside each other, and nothing of the table is read.
CREATE INDEX roster_items_shown ON roster_items (contact_digest, owner) WHERE subscription >= 2;
