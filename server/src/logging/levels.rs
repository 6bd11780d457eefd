//! The filter of the log: the configuration's, and levels that commands have raised for a while.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use rookery_base::lock::lock;

use super::{LEVELS, apply};

/// The filter of the process's log.
#[derive(Debug, Default)]
pub struct WantedFilter(Mutex<LevelsInner>);

#[derive(Debug, Default)]
struct LevelsInner {
    configured: String,
    /// The temporary levels of a few modules.
    raised: Vec<Raised>,
}

#[derive(Debug)]
struct Raised {
    module: String,
    level: String,
    until: Instant,
}

impl LevelsInner {
    /// Returns the filter that is due now.
    fn filter(&mut self, now: Instant) -> String {
        self.raised.retain(|raised| raised.until > now);
        let raised = self.raised.iter().map(|raised| format!(",{}={}", raised.module, raised.level));
        self.configured.clone() + &raised.collect::<String>()
    }
}

impl WantedFilter {
    /// Replaces the configured filter. Raised levels stay.
    pub fn configure(&self, filter: &str) -> Result<(), String> {
        lock(&self.0).configured = filter.to_owned();
        self.expire(Instant::now())
    }

    /// Logs a module at another level for a time.
    ///
    /// # Errors
    /// A message for the operator: there is no such module or level, or too many are raised.
    pub fn raise(&self, module: &str, level: &str, lasts: Duration, now: Instant) -> Result<(), String> {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b':';
        if !module.starts_with("rookery") || module.len() > LONGEST || !module.bytes().all(is_name) {
            return Err(format!(
                "{module:?} isn't a module: name one as in the log, such as rookery_shard::negotiation"
            ));
        }
        let level = level.to_lowercase();
        if !LEVELS.contains(&level.as_str()) {
            return Err(format!("{level:?} isn't a level; the levels are: {}", LEVELS.join(", ")));
        }
        {
            let mut inner = lock(&self.0);
            inner.raised.retain(|raised| raised.module != module);
            if inner.raised.len() >= MOST {
                return Err(format!("the levels of {MOST} modules are already raised"));
            }
            inner.raised.push(Raised { module: module.to_owned(), level, until: now + lasts });
        }
        self.expire(now)
    }

    /// Drops levels whose time is over. The lock is held until the filter is in force, so that of
    /// two concurrent changes the later one stays.
    pub fn expire(&self, now: Instant) -> Result<(), String> {
        let mut inner = lock(&self.0);
        apply(&inner.filter(now))
    }
}

/// Modules whose levels may be raised at a time.
pub const MOST: usize = 16;
/// The most bytes of a module's name.
const LONGEST: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_raised_for_a_while() {
        let (wanted, now) = (WantedFilter::default(), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        wanted.configure("info").expect("a filter");
        wanted.raise("rookery_shard", "DEBUG", Duration::from_secs(60), now).expect("raised");
        wanted.raise("rookery_web::api", "trace", Duration::from_secs(90), now).expect("raised");
        assert_eq!(lock(&wanted.0).filter(after(59)), "info,rookery_shard=debug,rookery_web::api=trace");
        wanted.raise("rookery_shard", "warn", Duration::from_secs(60), now).expect("set again");
        assert_eq!(lock(&wanted.0).filter(after(59)), "info,rookery_web::api=trace,rookery_shard=warn");
        assert_eq!(lock(&wanted.0).filter(after(60)), "info,rookery_web::api=trace");
        wanted.configure("warn").expect("a filter");
        assert_eq!(lock(&wanted.0).filter(after(60)), "warn,rookery_web::api=trace", "a reload takes nothing away");
        assert_eq!(lock(&wanted.0).filter(after(90)), "warn");
    }

    #[test]
    fn what_is_no_module_or_no_level_is_refused() {
        let (wanted, now) = (WantedFilter::default(), Instant::now());
        wanted.configure("info").expect("a filter");
        for (module, level) in [("rookery,info", "debug"), ("hyper", "trace"), ("rookery_shard", "loud"), ("", "info")]
        {
            assert!(wanted.raise(module, level, Duration::from_secs(1), now).is_err(), "{module}={level}");
        }
        for at in 0..MOST {
            wanted.raise(&format!("rookery{at}"), "debug", Duration::from_secs(1), now).expect("raised");
        }
        assert!(wanted.raise("rookery_one_more", "debug", Duration::from_secs(1), now).is_err());
        assert!(wanted.raise("rookery1", "trace", Duration::from_secs(1), now).is_ok());
    }
}
