//! Finds the homes of addresses for an operator, from the rows of the database, as a node that has
//! just read them would.

use rookery_base::{AddressHash, wait};
use rookery_store::Meta;

use crate::failure::JoinFailure;
use crate::members;
use crate::table::NodeTable;

/// Returns the names of the nodes at which these bare JIDs are at home; empty if there is no node.
///
/// # Errors
/// See [`JoinFailure`].
pub fn homes(meta: &dyn Meta, addresses: &[String]) -> Result<Vec<String>, JoinFailure> {
    let rows = wait(members::all(meta))?;
    let Some((name, row)) = rows.first().cloned() else { return Ok(Vec::new()) };
    let hash = AddressHash::of_cluster(wait(members::key(meta))?);
    let mut table = NodeTable::new(name, row);
    table.update(rows.clone());
    let view = table.view();
    let home = |address: &String| {
        let station = view.station(view.hop(hash.of(address)))?;
        rows.iter().find(|(_, row)| row.number == station.node).map(|(name, _)| name.clone())
    };
    Ok(addresses.iter().filter_map(home).collect())
}

#[cfg(test)]
mod tests {
    use rookery_store::memory::Memory;
    use rookery_store::{Fencing, Pending, ProcessWriter};

    use super::*;
    use crate::members::JoiningMember;

    /// A fence that fences no process off.
    struct OpenFencing;

    impl Fencing for OpenFencing {
        fn enlist(&self, _: ProcessWriter) -> Pending<()> {
            Box::pin(async { Ok(()) })
        }

        fn fence(&self, _: ProcessWriter) -> Pending<bool> {
            Box::pin(async { Ok(true) })
        }

        fn when_fenced(&self, _: Box<dyn FnOnce() + Send>) {}
    }

    #[test]
    fn addresses_are_at_home_where_other_nodes_look_for_them() {
        let stores = Memory::stores();
        let meta = &*stores.meta;
        let addresses: Vec<_> = (0..64).map(|number| format!("user{number}@a.example")).collect();
        assert_eq!(homes(meta, &addresses).unwrap(), [""; 0], "there is no node");
        let [_, second, _] = ["n1", "n2", "n3"]
            .map(|name| wait(members::join(meta, &OpenFencing, name, JoiningMember::of_shards(2))).unwrap().row);
        assert!(wait(members::leave(meta, "n3")).unwrap());
        let mut table = NodeTable::new("n2".into(), second);
        table.update(wait(members::all(meta)).unwrap());
        let (view, hash) = (table.view(), AddressHash::of_cluster(wait(members::key(meta)).unwrap()));
        let node = |address: &String| format!("n{}", view.station(view.hop(hash.of(address))).unwrap().node);
        let found = homes(meta, &addresses).unwrap();
        assert_eq!(found, addresses.iter().map(node).collect::<Vec<_>>());
        assert!(["n1", "n2"].iter().all(|name| found.iter().any(|home| home == name)), "both have some");
        assert!(!found.iter().any(|home| home == "n3"), "it leaves");
    }
}
