//! The contract of the stores, run over every implementation of them.

mod suite {
    pub mod accounts;
    pub mod archive;
    pub mod documents;
    pub mod invitations;
    pub mod last_presence;
    pub mod offline;
    pub mod order;
    pub mod pubsub;
    pub mod rooms;
    pub mod rosters;
    pub mod samples;
    pub mod slots;
    pub mod versions;
}

use rookery_needs::{Mariadb, Postgres};
use rookery_store::memory::Memory;
use rookery_store::shuffled::Shuffled;
use rookery_store::{Stores, mysql, postgres, sqlite};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

/// One module of tests per listed function of the suite, one test in it per implementation.
macro_rules! over_all_stores {
    ($($concern:ident::$test:ident),* $(,)?) => {$(
        mod $test {
            #[test]
            fn in_memory() {
                crate::suite::$concern::$test(&crate::Memory::stores());
            }

            #[test]
            fn in_memory_shuffled() {
                crate::with_shuffled(crate::suite::$concern::$test);
            }

            #[test]
            fn in_sqlite() {
                crate::with_sqlite(false, crate::suite::$concern::$test);
            }

            #[test]
            fn in_sqlite_where_every_write_is_run_again() {
                crate::with_sqlite(true, crate::suite::$concern::$test);
            }

            #[test]
            fn in_postgres() {
                crate::with_postgres(false, crate::suite::$concern::$test);
            }

            #[test]
            fn in_mariadb() {
                crate::with_mariadb(false, crate::suite::$concern::$test);
            }
        }
    )*};
}

/// Defines the same tests over archives that are divided into months.
macro_rules! over_months {
    ($($test:ident),* $(,)?) => {$(
        mod $test {
            #[test]
            fn in_postgres() {
                crate::with_postgres(true, crate::suite::archive::$test);
            }

            #[test]
            fn in_mariadb() {
                crate::with_mariadb(true, crate::suite::archive::$test);
            }
        }
    )*};
}

mod by_months {
    over_months! {
        pages_go_both_ways,
        a_full_archive_loses_what_its_excess_is_of,
        what_leaves_an_archive_makes_room,
        conversations_are_told_apart,
        nicks_that_end_with_a_space_are_others,
        ids_must_be_there,
        counts_are_bounded,
        archives_have_ends_and_can_be_emptied,
        removed_archives_are_cleared_in_steps,
        a_message_can_be_replaced_and_stretches_follow_each_other,
        groups_of_any_size_are_written_once,
        a_sweep_goes_through_all_archives_in_steps,
        one_archive_expires_in_steps,
        rooms_say_how_long_messages_stay,
    }
}

over_all_stores! {
    accounts::an_account_is_created_once,
    accounts::a_resource_is_ignored,
    accounts::passwords_change,
    accounts::many_are_created_in_order,
    accounts::lists_go_on_behind_an_account,
    accounts::a_removed_account_leaves_nothing,
    accounts::disabled_accounts_are_listed,
    accounts::operators_browse_them,
    accounts::operators_see_what_accounts_store,
    accounts::operators_see_when_accounts_were_made,
    accounts::settings_are_kept,
    accounts::lists_change_by_entries,
    rosters::items_read_as_written,
    rosters::an_edit_decides_on_what_is_there,
    rosters::owners_must_be_accounts,
    rosters::contacts_have_a_subscription,
    rosters::requests_are_kept_but_not_shown,
    rosters::sizes_tell_contacts_from_strangers,
    rosters::a_panicking_edit_changes_nothing,
    rosters::concurrent_edits_all_count,
    rosters::many_items_at_once_are_as_many_changes,
    versions::versions_count_what_clients_see,
    versions::a_vanished_contact_is_reported_until_it_comes_back,
    versions::unknown_versions_get_everything,
    versions::removals_are_remembered_within_bounds,
    versions::a_successor_never_matches_an_old_cache,
    versions::replayed_changes_give_the_roster,
    offline::messages_wait_in_order,
    offline::a_limit_holds,
    offline::pages_are_bounded_in_bytes,
    offline::ids_are_never_given_again,
    documents::the_last_one_of_a_name_counts,
    documents::documents_are_found_by_prefix,
    documents::names_that_end_with_a_space_are_others,
    documents::documents_belong_to_accounts,
    documents::one_document_of_many_accounts,
    documents::all_or_none_are_put_within_limits,
    invitations::a_token_is_good_once_and_for_a_time,
    invitations::open_ones_are_listed,
    invitations::owners_have_a_limit_and_take_theirs_along,
    slots::a_slot_is_filled_once_and_kept_for_a_time,
    slots::owners_of_slots_have_a_quota,
    slots::slots_of_a_removed_account_have_expired,
    archive::pages_go_both_ways,
    archive::a_full_archive_loses_what_its_excess_is_of,
    archive::many_small_conversations_share_an_archive,
    archive::what_leaves_an_archive_makes_room,
    archive::an_archive_larger_than_its_bound_only_stops_growing,
    archive::conversations_are_told_apart,
    archive::nicks_that_end_with_a_space_are_others,
    archive::ids_must_be_there,
    archive::counts_are_bounded,
    archive::archives_have_ends_and_can_be_emptied,
    archive::removed_archives_are_cleared_in_steps,
    archive::a_message_can_be_replaced_and_stretches_follow_each_other,
    archive::only_accounts_and_rooms_have_archives,
    archive::groups_of_any_size_are_written_once,
    archive::a_sweep_goes_through_all_archives_in_steps,
    archive::one_archive_expires_in_steps,
    archive::a_sweep_takes_little_at_a_time,
    archive::rooms_say_how_long_messages_stay,
    rooms::rooms_read_as_written,
    rooms::services_list_their_own_rooms,
    rooms::affiliations_change_and_outlive_the_document,
    rooms::reserved_nicks_keep_the_spaces_at_their_ends,
    rooms::a_user_is_forgotten_everywhere,
    last_presence::only_those_who_may_see_it_do,
    last_presence::the_last_one_counts,
    pubsub::a_node_is_created_once,
    pubsub::keys_that_end_with_a_space_are_others,
    pubsub::an_account_has_nodes_only_while_it_exists,
    pubsub::a_removed_account_has_no_part_in_nodes_of_others,
    pubsub::entities_find_their_own,
    pubsub::items_come_in_the_order_of_publication,
    pubsub::items_are_bounded,
    pubsub::who_makes_nodes_answers_for_them,
    pubsub::bytes_are_counted,
    pubsub::subscriptions_of_an_account_are_bounded,
    pubsub::pages_of_items_are_bounded_in_bytes,
    pubsub::news_know_how_the_asker_stands,
    pubsub::news_come_in_portions,
    pubsub::nodes_of_accounts_are_listed_page_by_page,
    order::calls_take_effect_without_being_polled,
    order::completions_come_in_the_order_of_calls,
    order::a_page_has_all_that_was_written_before_it_was_asked_for,
}

fn with_shuffled(test: impl Fn(&Stores)) {
    for seed in 0..8 {
        let (shuffled, is_over) = (Shuffled::new(Memory::stores(), seed), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if !shuffled.run_one() {
                        std::thread::yield_now();
                    }
                }
            });
            let over = EndsThread(&is_over);
            test(&shuffled.stores());
            drop(over);
        });
    }
}

/// Ends the thread that runs the operations, even if the test panics.
struct EndsThread<'a>(&'a AtomicBool);

impl Drop for EndsThread<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn with_sqlite(contested: bool, test: impl FnOnce(&Stores)) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("rookery.db");
    let store = Arc::new(
        sqlite::open(&path, &sqlite::SqliteOptions { contested, ..sqlite::SqliteOptions::default() })
            .expect("a new database"),
    );
    test(&Stores::of(store.clone()));
    store.close();
    let findings = sqlite::check(&path);
    assert!(findings.iter().all(|finding| finding.severity == sqlite::Severity::Note), "{findings:?}");
}

fn with_postgres(months: bool, test: impl FnOnce(&Stores)) {
    if rookery_needs::skips("store.postgres") {
        return;
    }
    static CLUSTER: LazyLock<Postgres> = LazyLock::new(Postgres::start);
    let address = postgres::PostgresAddress::parse(&CLUSTER.database()).expect("an address");
    // The cluster's own setting: fsync is off.
    let options = postgres::PostgresOptions {
        trusts_durability: true,
        connections: 2,
        months,
        ..postgres::PostgresOptions::at(address)
    };
    let store = Arc::new(postgres::open(&options).expect("an empty database"));
    test(&Stores::of(store.clone()));
    store.close();
    let findings = postgres::check(&options);
    assert!(findings.iter().all(|finding| finding.severity == sqlite::Severity::Note), "{findings:?}");
}

fn with_mariadb(months: bool, test: impl FnOnce(&Stores)) {
    if rookery_needs::skips("store.mariadb") {
        return;
    }
    static SERVER: LazyLock<Mariadb> = LazyLock::new(Mariadb::start);
    let database = SERVER.database();
    if months {
        let name = database.rsplit('/').next().expect("a name");
        let grant = format!("GRANT DROP, LOCK TABLES ON {name}.* TO rookery@'%'");
        SERVER.sql(&database, &grant).expect("rights");
    }
    let address = mysql::MysqlAddress::parse(&database).expect("an address");
    let options = mysql::MysqlOptions { connections: 2, months, ..mysql::MysqlOptions::at(address) };
    let store = Arc::new(mysql::open(&options).expect("an empty database"));
    test(&Stores::of(store.clone()));
    store.close();
    let findings = mysql::check(&options);
    assert!(findings.iter().all(|finding| finding.severity == sqlite::Severity::Note), "{findings:?}");
}
