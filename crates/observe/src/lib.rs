//! Counters of a shard, summed when somebody asks.
