use super::rates::LONGEST_WAIT_MS;
use super::*;

pub(super) fn whence<'a>(address: &str, account: &'a str) -> Whence<'a> {
    Whence { address: address.parse().unwrap(), account, client: None, counts: CountsAt::Everywhere }
}

/// Makes a wrong guess; returns the time that it waited, or the cause for which it was not checked.
pub(super) fn guess(attempts: &mut LoginAttempts, whence: Whence<'_>, now_ms: u64) -> Result<u64, AttemptCause> {
    let (_, wait) = attempts.begin(whence, DEFAULT_A_DAY, now_ms).map_err(|refused| refused.cause)?;
    attempts.failed();
    Ok(wait)
}

/// Logs in; returns the time that it waited.
pub(super) fn log_in(attempts: &mut LoginAttempts, whence: Whence<'_>, now_ms: u64) -> Result<u64, AttemptCause> {
    let (attempt, wait) = attempts.begin(whence, DEFAULT_A_DAY, now_ms).map_err(|refused| refused.cause)?;
    attempts.succeeded(&attempt, now_ms + wait);
    Ok(wait)
}

#[test]
fn one_that_guesses_slows_down_nobody_else_behind_its_address() {
    let mut attempts = LoginAttempts::default();
    let mut looked_at = 0;
    for now_ms in 0..10_000 {
        looked_at += usize::from(guess(&mut attempts, whence("192.0.2.1", "broken@a.example"), now_ms).is_ok());
    }
    assert_eq!(looked_at, PAIR.burst as usize);
    for number in 0..200 {
        let account = format!("user{number}@a.example");
        assert_eq!(log_in(&mut attempts, whence("192.0.2.1", &account), 10_000), Ok(0));
    }
    // The owner comes in from another address.
    assert_eq!(log_in(&mut attempts, whence("192.0.2.2", "broken@a.example"), 10_000), Ok(0));
    let tally = attempts.tally();
    assert_eq!((tally.succeeded, tally.failed, tally.refused), (201, 20, [9980, 0, 0]));
}

#[test]
fn a_user_who_has_logged_in_from_there_does_not_wait_for_a_device_with_a_wrong_password() {
    let mut attempts = LoginAttempts::default();
    let office = whence("192.0.2.1", "romeo@a.example");
    assert_eq!(log_in(&mut attempts, office, 0), Ok(0));
    // A device tries again every ten seconds, for a day.
    for now_ms in (0..DAY_MS).step_by(10_000) {
        assert_eq!(guess(&mut attempts, office, now_ms), Ok(0));
        assert_eq!(log_in(&mut attempts, office, now_ms + 1), Ok(0));
    }
    // The rate also holds for a device that tries all the time.
    let mut looked_at = 0;
    for now_ms in (DAY_MS..2 * DAY_MS).step_by(1000) {
        looked_at += u64::from(guess(&mut attempts, office, now_ms).is_ok());
    }
    assert!((DAY_MS / KNOWN.each_ms..=DAY_MS / KNOWN.each_ms + KNOWN.burst + 2).contains(&looked_at), "{looked_at}");
    // After a month without a login the place is one like any other.
    assert!(!attempts.is_known(
        attempts.hash.of("romeo@a.example"),
        attempts.network("192.0.2.1".parse().unwrap()),
        DAY_MS + KNOWN_MS
    ));
}

#[test]
fn an_account_under_attack_from_many_addresses_has_so_many_guesses_a_day_and_lets_its_owner_in() {
    let mut attempts = LoginAttempts::default();
    let home = whence("198.51.100.1", "romeo@a.example");
    let phone = Whence { client: Some("8e6c4a1e"), ..home };
    assert_eq!(log_in(&mut attempts, home, 0), Ok(0));
    assert_eq!(log_in(&mut attempts, phone, 0), Ok(0));
    let addresses: Vec<String> = (0..15_000).map(|number| format!("10.{}.{}.1", number / 250, number % 250)).collect();
    let mut looked_at = 0;
    let mut now_ms = 0;
    // Each address tries twenty times, and has no further attempt for some hours.
    for address in addresses.iter().cycle().take(20 * addresses.len()) {
        looked_at += u64::from(guess(&mut attempts, whence(address, "romeo@a.example"), now_ms).is_ok());
        now_ms += DAY_MS / 300_000;
        if now_ms.is_multiple_of(1000) {
            assert_eq!(log_in(&mut attempts, home, now_ms), Ok(0));
            let on_the_way = Whence { address: "203.0.113.9".parse().unwrap(), ..phone };
            assert_eq!(log_in(&mut attempts, on_the_way, now_ms), Ok(0), "its installation is known");
        }
    }
    assert!((2500..=5110).contains(&looked_at), "{looked_at} in {now_ms} ms");
    let stranger = Whence { client: Some("other"), ..whence("203.0.113.10", "romeo@a.example") };
    assert_eq!(guess(&mut attempts, stranger, now_ms), Err(AttemptCause::Account));
    let other = Whence { account: "juliet@a.example", ..phone };
    assert!(!attempts.is_known(
        attempts.hash.of(other.account),
        attempts.hash.beside(attempts.hash.of(other.account), b"8e6c4a1e"),
        now_ms
    ));
}

#[test]
fn an_attack_from_some_hundred_addresses_leaves_room_for_an_owner_in_a_new_place() {
    let mut attempts = LoginAttempts::default();
    let addresses: Vec<String> = (0..150).map(|number| format!("10.0.{number}.1")).collect();
    let mut logins = 0;
    // Ten guesses a second for six hours, while somebody comes to a new hotel every hour and tries
    // ten times, half a minute apart.
    for (turn, address) in addresses.iter().cycle().take(10 * 6 * 3600).enumerate() {
        let now_ms = turn as u64 * 100;
        let _ = guess(&mut attempts, whence(address, "romeo@a.example"), now_ms);
        let (hour, second) = (now_ms / 3_600_000, now_ms / 1000 % 3600);
        if now_ms.is_multiple_of(30_000) && (1800..2100).contains(&second) {
            let hotel = format!("203.0.113.{hour}");
            logins += u64::from(log_in(&mut attempts, whence(&hotel, "romeo@a.example"), now_ms).is_ok());
        }
    }
    assert!(logins >= 59, "{logins} of 60");
}

#[test]
fn one_address_may_try_so_many_accounts() {
    let mut attempts = LoginAttempts::default();
    let mut looked_at = 0;
    for number in 0..20_000u64 {
        let account = format!("user{number}@a.example");
        looked_at += u64::from(guess(&mut attempts, whence("2001:db8::1", &account), number * 10).is_ok());
    }
    assert!((1199..=1211).contains(&looked_at), "{looked_at} in 200 seconds");
    assert!(
        (0..2).any(
            |_| guess(&mut attempts, whence("2001:db8::2", "new@a.example"), 200_000) == Err(AttemptCause::Address)
        )
    );
    assert_eq!(guess(&mut attempts, whence("2001:db8:0:1::2", "new@a.example"), 200_000), Ok(0));
    // A proxy may be on this machine, so its address means nothing.
    for number in 0..5000 {
        assert_eq!(guess(&mut attempts, whence("::1", &format!("user{number}@b.example")), 0), Ok(0));
    }
}

#[test]
fn many_at_once_gain_nothing_and_those_that_succeed_cost_nothing() {
    let mut attempts = LoginAttempts::default();
    let begun: Vec<_> = (0..100)
        .filter_map(|_| attempts.begin(whence("192.0.2.1", "romeo@a.example"), DEFAULT_A_DAY, 0).ok())
        .collect();
    assert_eq!(begun.len(), PAIR.burst as usize);
    let mut attempts = LoginAttempts::default();
    for number in 0..10_000u64 {
        let account = format!("user{}@a.example", number % 3000);
        assert_eq!(log_in(&mut attempts, whence("192.0.2.1", &account), number), Ok(0));
    }
    assert!(attempts.pairs.0.is_empty() && attempts.accounts.0.is_empty() && attempts.addresses.0.is_empty());
    // Unfinished attempts don't count either.
    for _ in 0..1000 {
        let (attempt, wait) = attempts.begin(whence("192.0.2.7", "romeo@a.example"), DEFAULT_A_DAY, 0).unwrap();
        assert_eq!(wait, 0);
        attempts.take_back(&attempt, 0);
    }
}

#[test]
fn trusted_networks_and_tokens_wait_for_nothing() {
    let mut attempts = LoginAttempts::default();
    let place = whence("192.0.2.1", "romeo@a.example");
    for _ in 0..50 {
        let _ = guess(&mut attempts, place, 0);
    }
    assert_eq!(guess(&mut attempts, place, 0), Err(AttemptCause::Pair));
    let exempt = Whence { counts: CountsAt::Nowhere, ..place };
    assert_eq!(log_in(&mut attempts, exempt, 0), Ok(0));
    assert_eq!(log_in(&mut attempts, place, 1), Ok(0), "from where a token was good, passwords are too");
}

#[test]
fn tokens_of_an_issuer_count_at_their_address_alone() {
    let mut attempts = LoginAttempts::default();
    let token = |address| Whence { counts: CountsAt::Address, ..whence(address, "a.example") };
    for _ in 0..3 * ADDRESS.burst {
        assert_eq!(log_in(&mut attempts, token("192.0.2.1"), 0), Ok(0), "those that are good are taken back");
    }
    let looked_at = (0..3 * ADDRESS.burst).filter(|_| guess(&mut attempts, token("192.0.2.1"), 0).is_ok()).count();
    assert_eq!(looked_at as u64, ADDRESS.burst + LONGEST_WAIT_MS / ADDRESS.each_ms);
    assert_eq!(guess(&mut attempts, token("192.0.2.1"), 0), Err(AttemptCause::Address));
    assert_eq!(log_in(&mut attempts, token("192.0.2.2"), 0), Ok(0), "others log in");
    assert_eq!(log_in(&mut attempts, whence("192.0.2.2", "romeo@a.example"), 0), Ok(0));
    assert_eq!(guess(&mut attempts, whence("192.0.2.1", "romeo@a.example"), 0), Err(AttemptCause::Address));
    // Everybody behind a proxy on this machine has the same address.
    assert!((0..3 * ADDRESS.burst).all(|_| guess(&mut attempts, token("127.0.0.1"), 0) == Ok(0)));
}

#[test]
fn the_one_who_waits_is_the_one_who_is_next() {
    let mut attempts = LoginAttempts::default();
    let place = whence("192.0.2.1", "romeo@a.example");
    for _ in 0..PAIR.burst {
        assert_eq!(guess(&mut attempts, place, 0), Ok(0));
    }
    let soon = PAIR.each_ms - 4_000;
    assert_eq!(attempts.begin(place, DEFAULT_A_DAY, 0).unwrap_err().retry_ms, PAIR.each_ms);
    assert_eq!(guess(&mut attempts, place, soon), Ok(4_000));
    assert_eq!(guess(&mut attempts, place, soon), Err(AttemptCause::Pair));
    assert_eq!(attempts.tally().delayed, [1, 0, 0]);
}

#[test]
fn a_flood_washes_nobodys_record_away() {
    let mut attempts = LoginAttempts::default();
    let owner = whence("198.51.100.1", "romeo@a.example");
    assert_eq!(log_in(&mut attempts, owner, 0), Ok(0));
    let guesser = whence("192.0.2.1", "romeo@a.example");
    for _ in 0..30 {
        let _ = guess(&mut attempts, guesser, 0);
    }
    for number in 0..MOST * 3 / 2 {
        let address = format!("2001:db8:{:x}:{:x}::1", number >> 16, number & 0xffff);
        let account = format!("user{number}@a.example");
        // Nobody has enough addresses to give each of them more than a few failures.
        let _ = guess(&mut attempts, whence(&address, &account), 1);
        if number % 2 == 0 {
            let _ = guess(&mut attempts, whence(&address, &account), 1);
        }
    }
    assert_eq!(guess(&mut attempts, guesser, 2), Err(AttemptCause::Pair));
    for table in [&attempts.pairs, &attempts.accounts, &attempts.addresses] {
        assert!((MOST / 4 * 3..=MOST).contains(&table.0.len()), "no more goes than has to: {}", table.0.len());
    }
    let key = attempts.hash.of(owner.account);
    assert!(attempts.is_known(key, attempts.network(owner.address), 2));
}

#[test]
fn places_are_bounded_for_each_account_and_in_all() {
    let mut attempts = LoginAttempts::default();
    for number in 0..100u64 {
        let address = format!("192.0.2.{number}");
        assert_eq!(log_in(&mut attempts, whence(&address, "romeo@a.example"), number), Ok(0));
    }
    let key = attempts.hash.of("romeo@a.example");
    assert_eq!(attempts.known[&key].len(), MOST_PLACES);
    assert!(attempts.is_known(key, attempts.network("192.0.2.99".parse().unwrap()), 100));
    for account in 0..MOST_KNOWN as u64 + 10 {
        attempts.remember(account, 1, 100 + account);
    }
    let known = attempts.known.len();
    assert!((MOST_KNOWN / 4 * 3..=MOST_KNOWN).contains(&known), "no more goes than has to: {known}");
    assert!(attempts.is_known(MOST_KNOWN as u64, 1, 0), "who has logged in last stays");
}
