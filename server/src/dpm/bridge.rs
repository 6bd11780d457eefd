//! Connects the chat with the thread that reads devices: shards' requests go one way, readings the
//! other.
//!
//! Shards need the description of a node while they serve a user, so the device database is in
//! memory here, and its lock is only held while a reference is copied. Everything else is an order
//! for the thread, which is notified by one wake.

use std::sync::{Arc, Mutex, RwLock};

use rookery_base::lock::{lock, read, write};
use rookery_dpm::authority::Roles;
use rookery_dpm::database::{Database, Stored};
use rookery_dpm::drf::{DrfEvent, Request, Time};
use rookery_dpm::driver::Wake;
use rookery_dpm::status::Status;
use rookery_dpm::when::ReaderWish;
use rookery_pubsub::data::{DataListed, DataSource, Description, Topic};

use super::payload::NAMESPACE;

/// The bridge. Clones refer to the same one.
#[derive(Clone)]
pub struct Bridge(Arc<BridgeCommon>);

struct BridgeCommon {
    known: RwLock<BridgeKnown>,
    orders: Mutex<Vec<BridgeOrder>>,
    wake: Wake,
}

struct BridgeKnown {
    database: Arc<Database>,
    listed: Arc<[DataListed]>,
}

/// An order for the thread.
pub enum BridgeOrder {
    /// Read the device of a node for this shard.
    Open(Arc<Topic>, usize),
    /// Stop reading it.
    Close(Topic),
    /// Switch to this database.
    Database(Arc<Database>),
    /// Switch to these roles, which may set devices.
    Roles(Roles),
    /// Stop the thread.
    Stop,
}

impl Bridge {
    /// Creates the bridge to a thread that can be woken.
    pub fn new(database: Arc<Database>, wake: Wake) -> Bridge {
        let known = RwLock::new(BridgeKnown::new(database));
        Bridge(Arc::new(BridgeCommon { known, orders: Mutex::default(), wake }))
    }

    /// Switches to this database for descriptions.
    pub fn know(&self, database: Arc<Database>) {
        *write(&self.0.known) = BridgeKnown::new(database);
    }

    /// Queues an order and wakes the thread.
    pub fn order(&self, order: BridgeOrder) {
        let mut orders = lock(&self.0.orders);
        orders.push(order);
        let is_first = orders.len() == 1;
        drop(orders);
        if is_first {
            self.0.wake.wake();
        }
    }

    /// Takes the orders that came since the last call.
    pub fn take(&self) -> Vec<BridgeOrder> {
        std::mem::take(&mut *lock(&self.0.orders))
    }

    fn database(&self) -> Arc<Database> {
        read(&self.0.known).database.clone()
    }
}

impl DataSource for Bridge {
    fn describe(&self, node: &str) -> Result<Description, String> {
        let database = self.database();
        describe(&database, node).map_err(|status| format!("{node}: {status}"))
    }

    fn nodes(&self) -> Arc<[DataListed]> {
        read(&self.0.known).listed.clone()
    }

    fn open(&self, topic: &Arc<Topic>, shard: usize) {
        self.order(BridgeOrder::Open(topic.clone(), shard));
    }

    fn close(&self, topic: &Topic) {
        self.order(BridgeOrder::Close(topic.clone()));
    }
}

impl BridgeKnown {
    fn new(database: Arc<Database>) -> BridgeKnown {
        let devices = database.devices().iter();
        let mut listed: Vec<_> =
            devices.map(|device| DataListed { node: device.name.clone(), title: device.description.clone() }).collect();
        listed.sort_unstable_by(|a, b| a.node.cmp(&b.node));
        BridgeKnown { database, listed: listed.into() }
    }
}

/// Parses the request that is a node's name. One without an event is read periodically.
pub fn request(node: &str) -> Result<Request, Status> {
    let mut request = Request::parse(node).map_err(rookery_dpm::drf::Error::status)?;
    if request.event == DrfEvent::Default {
        request.event = DrfEvent::Periodic { period: PERIOD, at_once: true };
    }
    Ok(request)
}

fn describe(database: &Database, node: &str) -> Result<Description, Status> {
    let request = request(node)?;
    if request.model.is_some() {
        return Err(Status::INVALID_DATASOURCE);
    }
    let target = database.find(&request)?;
    let wish = ReaderWish::of(&target.event, database)?.ok_or(Status::BAD_EVENT)?;
    match &target.stored {
        Stored::FrontEnd(wanted) => {
            let front_end = database.nodes().get(wanted.node).ok_or(Status::NO_NODE)?;
            wish.when.check_at(front_end)?;
        }
        Stored::Text(_) | Stored::Number(_) => {}
        Stored::Nothing => return Err(Status::NOPROP),
    }
    let info = target.device.info(target.form);
    Ok(Description {
        title: info.name,
        about: info.description,
        payload: NAMESPACE,
        units: info.units.unwrap_or_default(),
    })
}

/// The period of a node whose name has none.
const PERIOD: Time = Time::Micros(1_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    fn describe_demo(node: &str) -> Result<Description, Status> {
        describe(&Database::load(None).expect("the demonstration"), node)
    }

    #[test]
    fn a_node_is_a_request() {
        let found = describe_demo("M:OUTTMP@p,100").expect("a device");
        assert_eq!((found.title.as_str(), found.units.as_str()), ("M:OUTTMP", "DegF"));
        assert_eq!(describe_demo("m:outtmp.primary").expect("the same device").units, "V");
        assert_eq!(describe_demo("M:OUTTMP.DESCRIPTION").expect("a text").title, "M:OUTTMP");
        assert_eq!(
            request("M:OUTTMP").expect("a request").to_string(),
            request("m:outtmp@p,1s,true").expect("one").to_string()
        );
    }

    #[test]
    fn what_can_not_be_read_is_no_node() {
        for (node, status) in [
            ("", Status::BAD_REQUEST),
            ("princely_musings", Status::BAD_REQUEST),
            ("M:NOBODY", Status::NOPROP),
            ("M:OUTTMP@X", Status::BAD_EVENT),
            ("M:OUTTMP@N", Status::BAD_EVENT),
            ("M:OUTTMP@E,2", Status::SUCCESS),
            ("M:OUTTMP.CONTROL", Status::NOPROP),
            ("B:ARRAY[20:30]", Status::OUT_OF_BOUNDS),
            ("M:OUTTMP<-LOGGER", Status::INVALID_DATASOURCE),
        ] {
            assert_eq!(
                describe_demo(node).map(drop),
                if status == Status::SUCCESS { Ok(()) } else { Err(status) },
                "{node}"
            );
        }
    }
}
