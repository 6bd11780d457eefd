//! Tests the built binary with existing clients: slixmpp, Profanity, aioxmpp, go-sendxmpp, and
//! libraries for browsers.
//!
//! Each test is a scenario in `tests/clients`, a Python script that starts its own server on free
//! ports in a temporary folder. The clients' requirements beyond Python are installed
//! automatically: Python packages below `target/`, programs by Debian's package system.
//!
//! Libraries for browsers run in Node: strophe.js and stanza over WebSocket and BOSH,
//! `@xmpp/client` over WebSocket, as it has no BOSH. Other servers, whose exports are imported, are
//! only installed if that doesn't start them.
//!
//! A scenario that can't be run fails, unless `ROOKERY_SKIP` names it: `clients.foreign`,
//! `clients.federation`, `clients.pages.two_people_chat_in_browsers`, `clients.night`,
//! `clients.harm`.

#[macro_use]
mod clients {
    #[macro_use]
    pub mod behind;
    pub mod converse;
    pub mod node;
    pub mod python;
    pub mod scenario;
    #[macro_use]
    pub mod scenarios;
}

use std::path::Path;
use std::process::Command;

use clients::scenario::{run, run_behind, run_harm};

/// Runs the bot in Java of `examples`, which uses Smack, as the first step of `tests/smack/run.py`.
#[test]
fn the_bot_in_java_tells_the_time() {
    if rookery_needs::skips("clients.java") {
        return;
    }
    rookery_needs::programs(&[("javac", "default-jdk-headless"), ("mvn", "maven")]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/smack/run.py");
    let mut command = Command::new("python3");
    command.arg(script).args(["--example", "--binary", env!("CARGO_BIN_EXE_rookery")]).env_remove("ROOKERY_DATA_DIR");
    let output = command.output().expect("Python");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{said}", output.status);
}

/// Full disks, certificates that have ended, damaged databases and the like.
#[test]
fn what_goes_wrong_at_night_is_told_and_survived() {
    clients::scenario::run_night();
}

mod harm {
    use super::run_harm;

    #[test]
    fn nodes_are_killed() {
        run_harm("kill");
    }

    #[test]
    fn nodes_stand_still() {
        run_harm("stop");
    }

    #[test]
    fn nodes_are_restarted() {
        run_harm("restart");
    }

    #[test]
    fn redis_is_killed() {
        run_harm("redis");
    }

    #[test]
    fn the_database_stands_still() {
        run_harm("database");
    }

    #[test]
    fn connections_to_the_database_break() {
        run_harm("cut");
    }

    #[test]
    fn the_home_of_a_room_is_killed() {
        run_harm("room");
    }
}

scenarios! {
    login {
        starttls_is_verified
        direct_tls_is_verified
        who_does_not_trust_the_certificate_stays_out
        a_client_that_tries_both_ports_finds_one
        every_mechanism_works
        tls_1_2_works
        a_wrong_password_is_told
        an_unknown_account_is_told_the_same
        a_device_that_guesses_keeps_nobody_else_out
        passwords_may_be_anything
        addresses_may_have_any_letters
        the_newer_of_two_with_one_resource_stays
        the_newer_is_refused_if_the_operator_wants_it
    }
    contacts {
        a_contact_is_asked_and_approves
        a_contact_may_refuse_and_cancel
        a_request_waits_for_who_is_away
        presence_comes_and_goes
        a_connection_that_breaks_is_told_as_leaving
        strangers_see_nothing
        names_and_groups_are_kept_and_pushed
        a_removed_contact_sees_nothing_any_more
        groups_of_the_operator_are_contacts
    }
    privacy {
        who_is_blocked_gets_nothing_through
        a_block_counts_while_nobody_is_there
        contacts_learn_when_somebody_was_here_last
        who_is_blocked_can_be_reported
    }
    messages {
        messages_go_both_ways
        a_hundred_kilobytes_arrive_whole
        a_thousand_arrive_in_order
        all_devices_of_a_user_get_them
        nobody_can_be_impersonated
        what_clients_say_of_messages_passes_untouched
        messages_wait_for_who_is_away
        who_is_not_available_is_away
        a_message_to_nobody_comes_back
        other_domains_cannot_be_reached
    }
    mobile {
        a_session_goes_on_after_a_break
        a_session_goes_on_after_a_restart
        what_was_on_its_way_comes_once_and_in_order
        a_session_that_waited_too_long_is_over
        an_inactive_client_is_left_alone
        who_is_away_is_pushed_to
        login_and_session_are_one_exchange
        a_token_is_enough
    }
    archive {
        a_conversation_is_kept_for_both
        a_page_follows_the_other
        an_archive_is_filtered
        what_was_taken_back_leaves_a_tombstone
        who_was_away_finds_it_there
        preferences_are_kept
        nobody_reads_what_is_not_theirs
        all_devices_have_both_sides
    }
    services {
        the_server_tells_what_it_can
        it_answers_pings
        it_tells_version_and_time
        what_it_does_not_know_is_refused
        clients_ask_one_another
        turn_servers_are_listed_with_credentials
        a_client_learns_its_address
    }
    multicast {
        the_service_is_found
        one_message_reaches_all_and_shows_what_it_may
        who_is_away_reads_it_later
        too_many_are_refused
    }
    rooms {
        people_talk_in_a_room
        who_enters_later_reads_what_was_said
        an_owner_rules
        a_room_outlives_the_server
        what_is_taken_back_leaves_a_tombstone
        occupants_are_told_apart_and_can_ask_whether_they_are_there
        voice_is_asked_for_and_given
        a_room_is_logged_for_people
        a_nick_is_registered
        an_admin_approves_a_registration
        hats_are_given_and_worn
        a_room_has_an_avatar
        rooms_are_closed_to_listed_abusers
    }
    pubsub {
        who_subscribes_is_notified
        a_node_is_for_members_only
        subscriptions_are_approved_and_have_options
        fields_that_the_service_does_not_know_change_nothing
        contacts_hear_of_news_that_they_want
        new_contacts_hear_of_keys_at_once
        an_avatar_is_the_photo_of_the_card
        old_and_new_bookmarks_are_the_same
    }
    bytestreams {
        a_file_goes_through_the_server
        nobody_activates_what_is_not_theirs
        the_proxy_is_for_those_who_may
    }
    data {
        devices_are_nodes
        what_is_no_device_is_not_found
        subscriptions_outlive_the_server
        a_room_hears_of_alarms
    }
    web {
        xmppjs_chats_over_websocket
        strophe_chats_over_websocket
        stanza_chats_over_websocket
        the_bot_in_javascript_tells_the_time
        people_in_browsers_reach_people_who_are_not
        clients_find_the_websocket
        the_port_for_browsers_serves_xmpp_by_alpn
        health_and_metrics_are_told
        metrics_are_for_those_who_may
        proxies_that_are_trusted_are_believed
        a_proxy_that_does_not_say_for_whom_opens_nothing
        names_that_nobody_knows_open_nothing
        pages_of_other_sites_are_kept_out
        who_never_reads_keeps_nobody_out
        without_tls_no_password_is_asked_for
        what_is_no_handshake_is_refused
        floods_of_headers_are_refused
        who_is_slow_is_not_waited_for
        a_frame_of_forty_megabytes_is_refused_by_its_head
        files_are_shared
        pages_are_downloaded_not_shown
        an_upload_that_breaks_off_can_be_repeated
    }
    api {
        who_has_no_token_learns_nothing
        a_token_is_good_for_its_scopes_and_its_domain
        accounts_are_made_changed_and_removed
        an_archive_is_emptied
        lists_come_in_parts
        a_domain_speaks
        rooms_are_listed_and_destroyed
        rooms_that_are_stored_are_there
        rooms_are_made_and_changed
        what_is_no_request_is_refused
        the_api_is_for_those_who_may_come_here
        schemathesis_finds_nothing
    }
    admin {
        an_administrator_signs_in_and_out
        the_overview_says_whether_all_is_well
        the_page_speaks_the_language_of_the_browser
        who_is_no_administrator_stays_out
        guessing_is_slowed_down
        forged_forms_and_cookies_do_nothing
        an_account_is_made_and_logs_in
        accounts_are_found
        accounts_are_sorted_and_chosen
        others_domains_are_not_there
        a_right_that_is_taken_away_is_gone
        a_new_password_ends_visits
        a_domain_speaks_and_invites
        the_records_of_a_domain_are_shown_with_what_dns_says
        settings_are_found_and_marked
        a_room_is_shown_and_destroyed
        a_room_is_made_and_changed
        several_accounts_are_disabled_at_once
        sessions_are_listed_and_ended
        a_lost_session_tells_until_when_it_is_waited_for
        a_refused_form_comes_back_as_it_was_typed
        an_announcement_to_all_asks_first
        abuse_is_reported_and_dealt_with
        components_are_shown_and_closed
        the_page_is_for_those_who_may_come_here
    }
    bosh {
        strophe_chats_over_bosh
        stanza_chats_over_bosh
        strophe_chats_over_bosh_in_the_clear
        xmppjs_resumes_over_websocket
        strophe_resumes_over_websocket
        stanza_resumes_over_websocket
        stanza_goes_on_over_bosh
        a_page_that_is_loaded_again_goes_on
        people_over_bosh_reach_people_who_are_not
        clients_find_bosh
        answers_are_compressed_for_who_asks
        other_sites_may_use_it_as_the_operator_says
        what_is_no_request_is_refused
        bodies_are_bounded
        a_content_type_means_nothing
        a_session_outlives_its_connections
        requests_follow_each_other_on_a_connection
        proxies_are_believed_about_encryption
        the_end_of_the_server_is_told
        it_can_be_switched_off
    }
    pages {
        the_chat_page_says_what_is_missing
        the_chat_page_can_be_switched_off
        the_chat_page_gives_out_its_files_and_nothing_else
        nobody_is_asked_for_a_password_in_the_clear
        what_is_not_the_package_is_not_installed
        two_people_chat_in_browsers
        two_people_chat_where_no_websocket_gets_through
        a_picture_is_seen_in_a_room
        the_admin_page_shows_what_happens_and_makes_accounts
        graphs_tell_their_values_to_pointer_and_keyboard
        the_admin_page_is_legible_everywhere
        axe_finds_nothing_on_the_admin_page
        devices_are_seen_and_plotted_on_their_page
        axe_finds_nothing_in_german
        axe_finds_nothing_in_french
        axe_finds_nothing_in_spanish
        axe_finds_nothing_where_something_went_wrong
    }
    guests {
        the_first_page_leads_on
        people_are_led_to_the_encrypted_page
        pages_speak_the_readers_language
        an_invitation_is_accepted_without_a_client
        a_link_is_good_here_or_in_a_client_but_once
        a_forgotten_password_is_set_on_a_page
        tokens_are_not_guessed
        links_lead_nowhere_without_the_module
        people_get_their_data_and_leave
        somebody_joins_in_a_browser
        the_chat_page_is_the_servers
    }
    gallery {
        every_page_fits_every_width
    }
    registration {
        nobody_can_register_by_default
        people_register_where_it_is_on
        passwords_are_changed
        operators_change_passwords
        invited_people_register
        a_link_sets_a_forgotten_password
        people_leave
    }
    administration {
        administrators_see_commands_and_others_none
        accounts_are_made_disabled_and_removed
        announcements_reach_users
        announcements_are_sent_as_messages
        an_end_is_announced
        a_restart_is_one
        nobody_is_refused_during_a_restart
        removal_on_the_command_line_ends_sessions
        links_are_made_on_the_command_line
    }
    domains {
        contacts_cross_from_one_to_the_other
        accounts_belong_to_their_domain
        a_domain_that_is_not_served_is_told
        modules_are_switched_per_domain
    }
    operation {
        a_new_certificate_is_for_new_connections
        a_certificate_that_is_renewed_is_taken_over_unasked
        a_wrong_configuration_changes_nothing
        the_level_of_the_log_changes_at_once
        a_stop_is_announced
        what_was_acknowledged_survives_a_kill
        new_accounts_need_no_restart
        a_collector_of_traces_gets_spans_of_stanzas
    }
    certificates {
        certificates_are_issued_and_renewed
        what_the_authority_refuses_changes_nothing
        services_are_named_by_the_certificate_of_their_domain
    }
    terminal {
        profanity_logs_in_and_chats
        profanity_reads_what_has_waited
        profanity_tells_a_wrong_password
    }
    others {
        aioxmpp_logs_in_and_chats
        aioxmpp_is_told_of_a_wrong_password
        scram_plus_binds_the_channel
        scram_plus_notices_another_channel
        go_sendxmpp_sends_and_listens
    }
    aio {
        rooms_are_entered_and_talked_in
        devices_get_copies_of_what_the_other_says
        who_is_blocked_is_silent
        nodes_are_published_to_and_read
        nodes_are_configured
        cards_are_kept
        a_session_goes_on_after_a_break
    }
    moving {
        an_account_moves_with_all_it_has
        a_removed_account_leaves_nothing_behind
        a_removed_account_leaves_nothing
        the_next_of_that_name_finds_nothing
    }
    foreign {
        accounts_come_from_ejabberd
        accounts_come_from_prosody
        accounts_come_from_the_database_of_ejabberd
        accounts_come_from_the_database_of_prosody
    }
    federation {
        two_rookeries_meet
        a_server_is_called_at_the_port_for_browsers
        another_server_tells_whether_it_finds_the_way_here
        rookery_and_prosody_meet
        rookery_and_prosody_share_one_connection
        rookery_and_ejabberd_meet
        rookery_and_prosody_outlive_each_other
        rookery_and_ejabberd_outlive_each_other
        a_server_whose_certificate_is_foreign_gets_nothing
        what_a_server_without_acknowledgements_has_not_read_comes_back
        somebody_on_prosody_is_a_push_service
        people_of_rookery_and_prosody_share_news_and_rooms_past
        people_of_rookery_and_ejabberd_share_news_and_rooms_past
        one_message_reaches_300_addresses_on_rookery_prosody_and_ejabberd
        a_certificate_that_proves_nothing_is_replaced
        our_own_certificate_is_replaced_while_streams_are_open
        a_server_without_a_certificate_is_proven_by_dialback_where_that_is_allowed
        a_server_without_dialback_is_proven_by_its_certificate
        a_signed_zone_decides_who_a_server_is
        dns_that_fails_lies_or_takes_its_time_is_told_or_borne
        the_admin_page_shows_what_waits_and_why_servers_are_not_reached
        operators_see_what_happens
    }
    components {
        a_component_and_people_talk
        a_component_with_another_secret_stays_out
        biboumi_is_a_component
        slidge_is_a_privileged_component
    }
    examples {
        the_bot_tells_the_time
        the_component_rolls_dice
        the_shell_makes_an_account
    }
}

// At least one scenario for each client and each of the protocols that it speaks;
// `tests/clients/behind.py` runs all others, too.
behind! {
    login {
        every_mechanism_works
        the_newer_of_two_with_one_resource_stays
    }
    contacts {
        a_contact_is_asked_and_approves
    }
    privacy {
        who_is_blocked_gets_nothing_through
    }
    messages {
        a_thousand_arrive_in_order
        all_devices_of_a_user_get_them
        messages_wait_for_who_is_away
    }
    mobile {
        a_session_goes_on_after_a_break
        who_is_away_is_pushed_to
    }
    archive {
        a_conversation_is_kept_for_both
    }
    multicast {
        one_message_reaches_all_and_shows_what_it_may
    }
    rooms {
        people_talk_in_a_room
        an_owner_rules
    }
    pubsub {
        who_subscribes_is_notified
        contacts_hear_of_news_that_they_want
        an_avatar_is_the_photo_of_the_card
    }
    web {
        xmppjs_chats_over_websocket
        strophe_chats_over_websocket
        stanza_chats_over_websocket
        files_are_shared
    }
    bosh {
        strophe_chats_over_bosh
        stanza_goes_on_over_bosh
    }
    aio {
        rooms_are_entered_and_talked_in
    }
    others {
        aioxmpp_logs_in_and_chats
        go_sendxmpp_sends_and_listens
    }
    terminal {
        profanity_logs_in_and_chats
    }
    killed {
        two_people_chat_in_browsers
    }
}

#[test]
fn every_scenario_is_a_test() {
    if rookery_needs::skips("clients.every_scenario_is_a_test") {
        return;
    }
    let listed = clients::scenario::list();
    assert_eq!(listed.lines().collect::<Vec<_>>(), SCENARIOS);
}
