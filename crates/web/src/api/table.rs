//! The table of all operations of the API: where each is, what it takes, what it answers, who may
//! ask for it and what it does.

use std::pin::Pin;

use rookery_operations::api_tokens::Scope;

use super::call::{Call, Reply};
use super::field::{Field, Kind};
use super::problem::Problem;
use super::{domains, invitations, messages, rooms, sessions, users};

/// One operation.
pub(crate) struct Operation {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: &'static str,
    /// Its path behind the prefix, with variables such as `{jid}`.
    pub path: &'static str,
    /// Its name for programs.
    pub id: &'static str,
    /// Its purpose, in a line.
    pub summary: &'static str,
    /// The scope that a token needs.
    pub scope: Scope,
    /// The parameters that the query may have.
    pub query: &'static [Field],
    /// The members that the body may have, if it takes one.
    pub body: Option<&'static [Field]>,
    /// The status of success, with what it means.
    pub success: (u16, &'static str),
    /// The content of a successful response.
    pub answer: Content,
    /// Errors beyond those that all operations have.
    pub errors: &'static [u16],
    /// Does it.
    pub run: fn(Call) -> Answering,
}

/// The content of an operation's response.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content {
    /// Nothing.
    Nothing,
    /// JSON of the schema of this name.
    Json(&'static str),
    /// A part of a list of these.
    List(&'static str),
    /// A document of this media type.
    Document(&'static str),
}

/// An answer on its way.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send>>;

/// All operations, in the order of the description.
pub(crate) const OPERATIONS: &[Operation] = &[
    Operation {
        method: "GET",
        path: "/statistics",
        id: "getStatistics",
        summary: "The counts of the server, all domains together.",
        scope: Scope::StatisticsRead,
        query: &[],
        body: None,
        success: (200, "The counts at this moment."),
        answer: Content::Json("Statistics"),
        errors: &[],
        run: |call| Box::pin(domains::statistics(call)),
    },
    Operation {
        method: "GET",
        path: "/log",
        id: "getLog",
        summary: "The recent acts of administrators, the newest first: logins to the admin page and changes.",
        scope: Scope::LogRead,
        query: &[LIMIT],
        body: None,
        success: (200, "The entries."),
        answer: Content::List("LogEntry"),
        errors: &[],
        run: |call| Box::pin(domains::log(call)),
    },
    Operation {
        method: "GET",
        path: "/domains",
        id: "listDomains",
        summary: "The domains that the token is for.",
        scope: Scope::DomainsRead,
        query: &[],
        body: None,
        success: (200, "The domains."),
        answer: Content::List("Domain"),
        errors: &[],
        run: |call| Box::pin(domains::list(call)),
    },
    Operation {
        method: "GET",
        path: "/domains/{domain}",
        id: "getDomain",
        summary: "A domain: which modules are on, and how they are set.",
        scope: Scope::DomainsRead,
        query: &[],
        body: None,
        success: (200, "The domain."),
        answer: Content::Json("DomainDetails"),
        errors: &[],
        run: |call| Box::pin(domains::get(call)),
    },
    Operation {
        method: "GET",
        path: "/domains/{domain}/users",
        id: "listUsers",
        summary: "Accounts of a domain in the order of their names.",
        scope: Scope::UsersRead,
        query: &[
            AFTER,
            LIMIT,
            Field {
                name: "search",
                kind: Kind::Text { min: 1, max: 100 },
                is_required: false,
                doc: "Only those whose names contain this. A part may then be short and still not be the last one.",
            },
        ],
        body: None,
        success: (200, "A part of the list."),
        answer: Content::List("UserItem"),
        errors: &[422],
        run: |call| Box::pin(users::list(call)),
    },
    Operation {
        method: "POST",
        path: "/domains/{domain}/users",
        id: "addUser",
        summary: "Make an account.",
        scope: Scope::UsersWrite,
        query: &[],
        body: Some(&[
            Field {
                name: "name",
                kind: Kind::Text { min: 1, max: 1023 },
                is_required: true,
                doc: "The part of its address before the @.",
            },
            PASSWORD,
        ]),
        success: (201, "It was made."),
        answer: Content::Json("UserItem"),
        errors: &[409, 422],
        run: |call| Box::pin(users::add(call)),
    },
    Operation {
        method: "POST",
        path: "/domains/{domain}/announcements",
        id: "announce",
        summary: "Tell the users of a domain something.",
        scope: Scope::AnnouncementsWrite,
        query: &[],
        body: Some(&[
            SUBJECT,
            BODY,
            Field {
                name: "to",
                kind: Kind::Choice(&["online", "all"]),
                is_required: true,
                doc: "Those who are available, or all accounts; who is away gets it later.",
            },
        ]),
        success: (202, "It is on its way."),
        answer: Content::Nothing,
        errors: &[409, 422],
        run: |call| Box::pin(messages::announce(call)),
    },
    Operation {
        method: "GET",
        path: "/domains/{domain}/motd",
        id: "getMotd",
        summary: "The message of the day, which everybody gets once.",
        scope: Scope::AnnouncementsRead,
        query: &[],
        body: None,
        success: (200, "The message."),
        answer: Content::Json("Motd"),
        errors: &[409],
        run: |call| Box::pin(messages::motd(call)),
    },
    Operation {
        method: "PUT",
        path: "/domains/{domain}/motd",
        id: "setMotd",
        summary: "Set the message of the day. Users who are here get it now.",
        scope: Scope::AnnouncementsWrite,
        query: &[],
        body: Some(&[SUBJECT, BODY]),
        success: (204, "It is set."),
        answer: Content::Nothing,
        errors: &[409, 422],
        run: |call| Box::pin(messages::set_motd(call)),
    },
    Operation {
        method: "DELETE",
        path: "/domains/{domain}/motd",
        id: "deleteMotd",
        summary: "Remove the message of the day.",
        scope: Scope::AnnouncementsWrite,
        query: &[],
        body: None,
        success: (204, "There is none any more."),
        answer: Content::Nothing,
        errors: &[409],
        run: |call| Box::pin(messages::delete_motd(call)),
    },
    Operation {
        method: "POST",
        path: "/domains/{domain}/messages",
        id: "sendMessage",
        summary: "Send a message in the name of a domain.",
        scope: Scope::MessagesWrite,
        query: &[],
        body: Some(&[
            Field {
                name: "to",
                kind: Kind::Text { min: 1, max: 3071 },
                is_required: true,
                doc: "The address, here or elsewhere.",
            },
            SUBJECT,
            BODY,
        ]),
        success: (202, "It is on its way."),
        answer: Content::Nothing,
        errors: &[422],
        run: |call| Box::pin(messages::send(call)),
    },
    Operation {
        method: "POST",
        path: "/domains/{domain}/invitations",
        id: "invite",
        summary: "Make a link with which somebody can create an account, once.",
        scope: Scope::InvitationsWrite,
        query: &[],
        body: Some(&[
            Field {
                name: "name",
                kind: Kind::Text { min: 1, max: 1023 },
                is_required: false,
                doc: "The part before the @ in the address of the account; without it, the user chooses.",
            },
            DAYS,
        ]),
        success: (201, "The link."),
        answer: Content::Json("Invitation"),
        errors: &[409, 422],
        run: |call| Box::pin(invitations::invite(call)),
    },
    Operation {
        method: "GET",
        path: "/domains/{domain}/sessions",
        id: "listSessions",
        summary: "Sessions of a domain in the order of their addresses.",
        scope: Scope::SessionsRead,
        query: &[AFTER, LIMIT],
        body: None,
        success: (200, "A part of the list."),
        answer: Content::List("SessionItem"),
        errors: &[422],
        run: |call| Box::pin(sessions::list(call)),
    },
    Operation {
        method: "GET",
        path: "/domains/{domain}/rooms",
        id: "listRooms",
        summary: "Rooms of a domain in the order of their names, those that nobody may find included.",
        scope: Scope::RoomsRead,
        query: &[AFTER, LIMIT],
        body: None,
        success: (200, "A part of the list."),
        answer: Content::List("RoomItem"),
        errors: &[409, 422],
        run: |call| Box::pin(rooms::list(call)),
    },
    Operation {
        method: "GET",
        path: "/rooms/{room}",
        id: "getRoom",
        summary: "A room, and who is there.",
        scope: Scope::RoomsRead,
        query: &[],
        body: None,
        success: (200, "The room."),
        answer: Content::Json("Room"),
        errors: &[],
        run: |call| Box::pin(rooms::get(call)),
    },
    Operation {
        method: "DELETE",
        path: "/rooms/{room}",
        id: "destroyRoom",
        summary: "Destroy a room. Its occupants are told so.",
        scope: Scope::RoomsWrite,
        query: &[Field {
            name: "reason",
            kind: Kind::Text { min: 1, max: 500 },
            is_required: false,
            doc: "The reason that its occupants are told.",
        }],
        body: None,
        success: (204, "It is gone."),
        answer: Content::Nothing,
        errors: &[422],
        run: |call| Box::pin(rooms::destroy(call)),
    },
    Operation {
        method: "GET",
        path: "/users/{jid}",
        id: "getUser",
        summary: "An account.",
        scope: Scope::UsersRead,
        query: &[],
        body: None,
        success: (200, "The account."),
        answer: Content::Json("User"),
        errors: &[],
        run: |call| Box::pin(users::get(call)),
    },
    Operation {
        method: "PATCH",
        path: "/users/{jid}",
        id: "changeUser",
        summary: "Set the password of an account, keep it from logging in, or let it in again.",
        scope: Scope::UsersWrite,
        query: &[],
        body: Some(&[
            Field { is_required: false, ..PASSWORD },
            Field {
                name: "disabled",
                kind: Kind::Switch,
                is_required: false,
                doc: "True keeps it from logging in; its sessions end then.",
            },
        ]),
        success: (204, "It is changed."),
        answer: Content::Nothing,
        errors: &[422],
        run: |call| Box::pin(users::change(call)),
    },
    Operation {
        method: "DELETE",
        path: "/users/{jid}",
        id: "removeUser",
        summary: "Remove an account with everything that is kept for it.",
        scope: Scope::UsersWrite,
        query: &[],
        body: None,
        success: (204, "It is gone."),
        answer: Content::Nothing,
        errors: &[],
        run: |call| Box::pin(users::remove(call)),
    },
    Operation {
        method: "DELETE",
        path: "/users/{jid}/archive",
        id: "emptyArchive",
        summary: "Empty the archive of an account: what it has said and was told can't be seen any more.",
        scope: Scope::UsersWrite,
        query: &[],
        body: None,
        success: (204, "It is empty."),
        answer: Content::Nothing,
        errors: &[],
        run: |call| Box::pin(users::empty_archive(call)),
    },
    Operation {
        method: "GET",
        path: "/users/{jid}/export",
        id: "exportUser",
        summary: "All that is kept for an account, the keys of its password included (XEP-0227).",
        scope: Scope::UsersExport,
        query: &[],
        body: None,
        success: (200, "The document."),
        answer: Content::Document("application/xml"),
        errors: &[],
        run: |call| Box::pin(users::export(call)),
    },
    Operation {
        method: "POST",
        path: "/users/{jid}/password-link",
        id: "makePasswordLink",
        summary: "Make a link with which the password of an account can be set, once.",
        scope: Scope::InvitationsWrite,
        query: &[],
        body: Some(&[DAYS]),
        success: (201, "The link."),
        answer: Content::Json("Invitation"),
        errors: &[409],
        run: |call| Box::pin(invitations::password_link(call)),
    },
    Operation {
        method: "GET",
        path: "/users/{jid}/sessions",
        id: "listUserSessions",
        summary: "The sessions of an account, the newest last.",
        scope: Scope::SessionsRead,
        query: &[],
        body: None,
        success: (200, "The sessions."),
        answer: Content::List("Session"),
        errors: &[],
        run: |call| Box::pin(sessions::of_user(call)),
    },
    Operation {
        method: "DELETE",
        path: "/users/{jid}/sessions",
        id: "endUserSessions",
        summary: "End all sessions of an account.",
        scope: Scope::SessionsWrite,
        query: &[],
        body: None,
        success: (200, "How many that were."),
        answer: Content::Json("Ended"),
        errors: &[],
        run: |call| Box::pin(sessions::end_all(call)),
    },
    Operation {
        method: "DELETE",
        path: "/users/{jid}/sessions/{resource}",
        id: "endSession",
        summary: "End one session.",
        scope: Scope::SessionsWrite,
        query: &[],
        body: None,
        success: (204, "It is ended."),
        answer: Content::Nothing,
        errors: &[],
        run: |call| Box::pin(sessions::end_one(call)),
    },
];

const AFTER: Field = Field {
    name: "after",
    kind: Kind::Text { min: 1, max: 3071 },
    is_required: false,
    doc: "Only those behind this one: the `next` of the part before.",
};
const LIMIT: Field = Field {
    name: "limit",
    kind: Kind::Number { min: 1, max: 500 },
    is_required: false,
    doc: "The most entries; 100 if nothing is said.",
};
const PASSWORD: Field = Field {
    name: "password",
    kind: Kind::Text { min: 1, max: 1023 },
    is_required: true,
    doc: "Its password. Only keys that are derived from it are kept.",
};
const SUBJECT: Field =
    Field { name: "subject", kind: Kind::Text { min: 1, max: 500 }, is_required: false, doc: "The subject." };
const BODY: Field =
    Field { name: "body", kind: Kind::Text { min: 1, max: 10_000 }, is_required: true, doc: "The text." };
const DAYS: Field = Field {
    name: "days",
    kind: Kind::Number { min: 1, max: 3650 },
    is_required: false,
    doc: "Days for which the link is good; 7 if nothing is said.",
};
