//! The texts of the admin page, in four languages: a file for each of them.
//!
//! Each has all texts, so that none can be forgotten: the compiler wants every field. A text may
//! have `{}`, which is filled, and backticks around what is code; it has no characters that mean
//! something in HTML. With a bar it has two forms, for one thing and for more
//! ([`Language::plural`]).

mod english;
mod french;
mod german;
mod spanish;

use crate::language::Language;

impl Language {
    /// Returns the texts of the admin page in it.
    pub fn of_administrators(self) -> &'static AdminWords {
        match self {
            Self::English => &english::ENGLISH,
            Self::German => &german::GERMAN,
            Self::French => &french::FRENCH,
            Self::Spanish => &spanish::SPANISH,
        }
    }
}

macro_rules! texts {
    ($($name:ident,)*) => {
        /// The texts of the admin page in one language.
        #[derive(Debug)]
        pub(crate) struct AdminWords {
            $(pub $name: &'static str,)*
        }

        impl AdminWords {
            /// Returns all texts with their names.
            #[cfg(test)]
            fn all(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

texts! {
    // The frame of all pages.
    skip,
    pages,
    overview,
    users,
    sessions,
    rooms,
    domains,
    servers,
    messages,
    invitations,
    reports,
    log,
    sign_out,
    qr_label,
    copy,
    copied,
    show_password,
    hide_password,
    make_up,
    domain,
    show,
    find,
    more,
    back,
    not_found,
    // What forms and pages refuse.
    no_such_page,
    no_such_domain,
    no_such_address,
    no_account,
    no_room,
    exists,
    name_impossible,
    password_impossible,
    text_too_long,
    no_place,
    confirm_first,
    not_yourself,
    password_least,
    password_most,
    module_off,
    trouble,
    late,
    no_such_act,
    stale_form,
    // Signing in.
    account,
    password,
    sign_in,
    sign_in_by,
    for_administrators,
    too_many_attempts,
    wrong_login,
    no_random,
    no_such_way,
    issuer_away,
    too_many_signing_in,
    took_too_long,
    no_administrator,
    signed_in_title,
    signed_in,
    go_on,
    // The overview.
    all_well,
    to_do,
    reload_for_newer,
    sessions_connected,
    sessions_waiting,
    accounts,
    messages_today,
    running_for,
    disk_free,
    version,
    details,
    time_shown,
    last_hour,
    last_day,
    last_month,
    minutes,
    days_sign,
    now,
    graph_label,
    stanzas_a_second,
    deliveries_a_second,
    memory,
    slow_readers,
    stanzas_and_deliveries,
    latency,
    memory_a_session,
    waiting_for_sessions,
    multicast_cpu,
    line_sessions,
    line_stanzas,
    line_deliveries,
    line_delivery,
    line_mailbox,
    line_store,
    line_bytes,
    line_bytes_a_session,
    profile_hint,
    // What is to be done.
    disk_nearly_full,
    disk_full,
    certificate_ended,
    certificate_ends,
    store_refused,
    archive_lacks,
    reports_wait,
    logins_fail,
    bucket_fails,
    restart_needed,
    // Users, and one of them.
    users_of,
    no_such_account,
    name_contains,
    show_only,
    order,
    all_accounts,
    disabled_accounts,
    never_seen,
    by_name,
    seen_first,
    away_first,
    young_first,
    large_first,
    last_seen,
    created,
    storage,
    state,
    online,
    never,
    unknown,
    disabled,
    enabled,
    storage_hint,
    some_accounts,
    none_of_accounts,
    as_csv,
    new_account,
    name,
    characters_least,
    create,
    choose,
    choose_one,
    ticked,
    disable,
    enable,
    tick_some,
    is_your_own,
    were_disabled,
    were_enabled,
    left_alone,
    was_created,
    had_rights,
    administrator,
    contacts,
    here_now,
    connection_lost,
    last_here,
    never_here,
    none,
    end_all,
    new_password,
    sessions_end,
    set,
    or_send_link,
    access,
    nobody_logs_in,
    disabled_keeps,
    data,
    export_has,
    export,
    write_to_confirm,
    erase_account,
    erase,
    password_set,
    is_disabled,
    is_enabled,
    sessions_ended,
    was_erased,
    // Sessions.
    sessions_of,
    nobody_here,
    is_partial,
    no_such_session,
    was_ended,
    resource,
    client,
    from,
    by,
    connected,
    bytes_waiting,
    nowhere,
    is_lost,
    waits_until,
    waits,
    available,
    is_connected,
    no_tls,
    end,
    end_one,
    // Rooms.
    rooms_of,
    rooms_off,
    no_rooms,
    new_room,
    address,
    address_hint,
    description,
    room_stays,
    room_public,
    room_members,
    room,
    kind,
    public,
    hidden,
    stays,
    stays_empty,
    temporary,
    members_only,
    open,
    affiliations,
    occupants,
    nobody_there,
    nick,
    role,
    affiliation,
    moderator,
    participant,
    visitor,
    owner,
    admin,
    member,
    without_one,
    outcast,
    in_all,
    settings,
    save,
    reason,
    destroy_room,
    destroy,
    room_made,
    settings_count,
    was_destroyed,
    room_impossible,
    room_has_address,
    reason_most,
    // Domains, records and servers.
    file_decides,
    accounts_disabled,
    dns_records,
    module,
    what_it_is,
    on,
    off,
    key,
    value,
    not_default,
    not_defaults,
    dns_of,
    dns_has_all,
    dns_lacks,
    record,
    dns_says,
    there,
    missing,
    other,
    no_such_record,
    no_answer,
    from_a_shell,
    servers_note,
    ours,
    way,
    proven_by,
    waiting,
    quiet,
    last_trouble,
    close,
    no_stream,
    first_of,
    streams_closed,
    // Messages.
    announce,
    to,
    those_online,
    to_all_of,
    to_all,
    sure_all,
    subject,
    text,
    send,
    motd_of,
    motd_note,
    remove,
    on_its_way,
    count_accounts,
    goes_to,
    motd_is_set,
    motd_is_gone,
    text_bounds,
    // Invitations.
    register_off,
    to_create,
    to_reset,
    only_for_name,
    days_good,
    make_link,
    open_links,
    there_are_none,
    for_whom,
    made_by,
    good_until,
    link,
    revoke,
    revoke_one,
    new_password_of,
    a_new_password,
    a_new_account,
    an_administrator,
    these_end_first,
    link_gone,
    link_revoked,
    link_useless,
    days_bounds,
    good_once,
    by_mail,
    mail_subject,
    mail_text,
    // Reports of abuse.
    abuse_reports,
    abuse_note,
    spam,
    abuse,
    reported_by,
    removed_account,
    no_word,
    dismiss,
    dismiss_all,
    disable_one,
    dealt_with,
    is_dismissed,
    are_dismissed,
    no_account_of_yours,
    disabled_settled,
    // The log.
    administrators,
    logins,
    contains,
    when,
    who,
    what,
    outcome,
    newest_acts,
    newest_logins,
    no_mechanism,
    logged_in,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_filled_alike_and_have_no_html() {
        let english = Language::English.of_administrators().all();
        for language in Language::ALL {
            for ((name, text), (_, model)) in language.of_administrators().all().into_iter().zip(&english) {
                let marks = |text: &str| ["{}", "|", "`"].map(|mark| text.matches(mark).count());
                assert!(!text.is_empty() && !text.contains(['<', '>', '&', '"']), "{language:?} {name}");
                assert_eq!(marks(text), marks(model), "{language:?} {name}");
                let gaps: Vec<_> = text.split('|').map(|form| form.matches("{}").count()).collect();
                assert!(gaps.iter().all(|count| *count == gaps[0]), "{language:?} {name}");
            }
        }
    }

    /// A sentence that is the same as in English was not translated.
    #[test]
    fn texts_are_translated() {
        let english = Language::English.of_administrators().all();
        for language in [Language::German, Language::French, Language::Spanish] {
            let same =
                language.of_administrators().all().into_iter().zip(&english).filter(|(one, other)| one == *other);
            let sentences: Vec<_> = same.filter(|((_, text), _)| text.split(' ').count() > 3).collect();
            assert!(sentences.is_empty(), "{language:?}: {sentences:?}");
        }
    }
}
