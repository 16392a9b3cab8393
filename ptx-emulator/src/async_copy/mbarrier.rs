//! `mbarrier`: barriers in shared memory with phases, that also count the bytes of asynchronous copies.

/// A use of an `mbarrier` against its rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MbarrierError {
    /// No `mbarrier.init`, or an `mbarrier.inval` since.
    #[error("no mbarrier at {address:#x}: expected mbarrier.init before")]
    Uninitialised {
        /// Its shared address.
        address: u32,
    },
    /// Initialised again, without `mbarrier.inval`.
    #[error("mbarrier at {address:#x} is initialised again: expected mbarrier.inval before")]
    Reinitialised {
        /// Its shared address.
        address: u32,
    },
    /// A count outside `1 ..= 2^20 - 1`.
    #[error("expected a count of arrivals from 1 to 1048575, found {found}")]
    Count {
        /// The count.
        found: u64,
    },
    /// More arrivals than the phase awaits.
    #[error("mbarrier at {address:#x} awaits {pending} more arrivals in this phase, found {found}")]
    OverArrival {
        /// Its shared address.
        address: u32,
        /// Arrivals that the phase still awaits.
        pending: u32,
        /// Arrivals now made.
        found: u32,
    },
    /// A `.noComplete` arrival that would complete the phase.
    #[error("arrival .noComplete at the mbarrier at {address:#x} would complete the phase")]
    WouldComplete {
        /// Its shared address.
        address: u32,
    },
    /// A count of bytes outside `-(2^20 - 1) ..= 2^20 - 1`.
    #[error(
        "mbarrier at {address:#x}: expected a count of bytes within 1048575 of 0, found {found}"
    )]
    ByteCount {
        /// Its shared address.
        address: u32,
        /// The count that would result.
        found: i64,
    },
    /// A wait for a phase that is neither the current one nor the one before.
    #[error(
        "mbarrier at {address:#x} is waited for with a state of phase {found}: expected {current} or the one before"
    )]
    StaleState {
        /// Its shared address.
        address: u32,
        /// Phase of the state.
        found: u64,
        /// Current phase.
        current: u64,
    },
    /// Invalidated, initialised or overwritten while a thread waits or a copy is under way.
    #[error("mbarrier at {address:#x} is given up while {what}")]
    InUse {
        /// Its shared address.
        address: u32,
        /// Who needs it still.
        what: &'static str,
    },
    /// An address that is not a multiple of 8.
    #[error("mbarrier address {address:#x}: expected a multiple of 8")]
    Misaligned {
        /// The address.
        address: u32,
    },
}

/// The largest count of arrivals, and the largest distance of a count of bytes from 0.
pub const MAX_COUNT: u32 = (1 << 20) - 1;

/// A phase of an `mbarrier`, as `mbarrier.arrive` returns it: opaque to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(pub u64);

impl State {
    fn new(phase: u64, pending: u32) -> Self {
        Self(phase << 20 | u64::from(pending))
    }

    fn phase(self) -> u64 {
        self.0 >> 20
    }

    /// `mbarrier.pending_count`: the arrivals that the phase awaited when the state was taken.
    pub fn pending_count(self) -> u32 {
        (self.0 & u64::from(MAX_COUNT)) as u32
    }
}

/// How a thread arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrivals at once.
    pub count: u32,
    /// Bytes expected from now on, before the arrival.
    pub expect_bytes: u32,
    /// `.noComplete`: the phase must not be complete by it.
    pub no_complete: bool,
    /// `arrive_drop`: later phases await fewer arrivals.
    pub drop: bool,
}

impl Arrival {
    /// One arrival that expects no bytes.
    pub const ONE: Self = Self {
        count: 1,
        expect_bytes: 0,
        no_complete: false,
        drop: false,
    };
}

/// An `mbarrier` in use.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mbarrier {
    address: u32,
    /// Arrivals that each phase from the next on awaits.
    expected: u32,
    /// Arrivals that this phase still awaits.
    pending: u32,
    /// Bytes that this phase still awaits.
    bytes: i64,
    /// Phases that are complete.
    phase: u64,
    /// Copies and late arrivals that will still report here.
    under_way: u32,
}

impl Mbarrier {
    /// Completes the phase if nothing is awaited; returns whether it did.
    fn complete(&mut self) -> bool {
        let done = self.pending == 0 && self.bytes == 0;
        if done {
            self.phase += 1;
            self.pending = self.expected;
        }
        done
    }

    fn add_bytes(&mut self, bytes: i64) -> Result<(), MbarrierError> {
        self.bytes += bytes;
        if self.bytes.unsigned_abs() > u64::from(MAX_COUNT) {
            return Err(MbarrierError::ByteCount {
                address: self.address,
                found: self.bytes,
            });
        }
        Ok(())
    }
}

/// The `mbarrier`s of one block, by shared address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mbarriers {
    list: Vec<Mbarrier>,
}

impl Mbarriers {
    /// No `mbarrier`.
    pub fn new() -> Self {
        Self::default()
    }

    fn find(&mut self, address: u32) -> Result<&mut Mbarrier, MbarrierError> {
        if !address.is_multiple_of(8) {
            return Err(MbarrierError::Misaligned { address });
        }
        self.list
            .iter_mut()
            .find(|m| m.address == address)
            .ok_or(MbarrierError::Uninitialised { address })
    }

    /// `mbarrier.init`: phase 0 begins, and each phase awaits `count` arrivals.
    ///
    /// # Errors
    /// If one is in use there, or the count or the address is none.
    pub fn init(&mut self, address: u32, count: u32) -> Result<(), MbarrierError> {
        if count == 0 || count > MAX_COUNT {
            return Err(MbarrierError::Count {
                found: u64::from(count),
            });
        }
        match self.find(address) {
            Ok(_) => Err(MbarrierError::Reinitialised { address }),
            Err(MbarrierError::Uninitialised { .. }) => {
                self.list.push(Mbarrier {
                    address,
                    expected: count,
                    pending: count,
                    bytes: 0,
                    phase: 0,
                    under_way: 0,
                });
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// `mbarrier.inval`: the memory may be used for something else.
    ///
    /// # Errors
    /// If there is none, or a copy will still report to it.
    pub fn invalidate(&mut self, address: u32) -> Result<(), MbarrierError> {
        let found = self.find(address)?;
        if found.under_way != 0 {
            return Err(MbarrierError::InUse {
                address,
                what: "a copy is under way",
            });
        }
        self.list.retain(|m| m.address != address);
        Ok(())
    }

    /// An `mbarrier` in use that an ordinary store to these bytes would destroy.
    pub fn overlapping(&self, start: u32, len: u32) -> Option<u32> {
        let (start, end) = (u64::from(start), u64::from(start) + u64::from(len));
        self.list
            .iter()
            .map(|m| m.address)
            .find(|&a| u64::from(a) < end && start < u64::from(a) + 8)
    }

    /// An arrival. Returns the state before it, and whether it completed the phase.
    ///
    /// # Errors
    /// If there is no `mbarrier`, or it awaits less.
    pub fn arrive(&mut self, address: u32, how: Arrival) -> Result<(State, bool), MbarrierError> {
        let m = self.find(address)?;
        let state = State::new(m.phase, m.pending);
        if how.count == 0 || how.count > MAX_COUNT {
            return Err(MbarrierError::Count {
                found: u64::from(how.count),
            });
        }
        if how.count > m.pending {
            return Err(MbarrierError::OverArrival {
                address,
                pending: m.pending,
                found: how.count,
            });
        }
        m.add_bytes(i64::from(how.expect_bytes))?;
        if how.no_complete && how.count == m.pending {
            return Err(MbarrierError::WouldComplete { address });
        }
        if how.drop {
            m.expected = m
                .expected
                .checked_sub(how.count)
                .ok_or(MbarrierError::OverArrival {
                    address,
                    pending: m.expected,
                    found: how.count,
                })?;
        }
        m.pending -= how.count;
        Ok((state, m.complete()))
    }

    /// `mbarrier.expect_tx`: this phase awaits `bytes` more.
    ///
    /// # Errors
    /// If there is no `mbarrier`, or the count of bytes overflows.
    pub fn expect_bytes(&mut self, address: u32, bytes: u32) -> Result<(), MbarrierError> {
        self.find(address)?.add_bytes(i64::from(bytes))
    }

    /// A copy or a late arrival is under way that will report here.
    ///
    /// # Errors
    /// If there is no `mbarrier`.
    pub fn begin(&mut self, address: u32) -> Result<(), MbarrierError> {
        self.find(address)?.under_way += 1;
        Ok(())
    }

    /// A copy begun with [`Mbarriers::begin`] has brought `bytes`. Returns whether that completed the phase.
    ///
    /// # Errors
    /// If there is no `mbarrier`, or the count of bytes overflows.
    pub fn end(&mut self, address: u32, bytes: u32) -> Result<bool, MbarrierError> {
        let m = self.find(address)?;
        m.under_way = m.under_way.saturating_sub(1);
        self.complete_bytes(address, bytes)
    }

    /// `mbarrier.complete_tx`: `bytes` have come. Returns whether that completed the phase.
    ///
    /// # Errors
    /// If there is no `mbarrier`, or the count of bytes overflows.
    pub fn complete_bytes(&mut self, address: u32, bytes: u32) -> Result<bool, MbarrierError> {
        let m = self.find(address)?;
        m.add_bytes(-i64::from(bytes))?;
        Ok(m.complete())
    }

    /// `cp.async.mbarrier.arrive` is issued: an arrival will come. Unless `.noinc`, the phase awaits one more for it.
    ///
    /// # Errors
    /// If there is no `mbarrier`, or its count overflows.
    pub fn begin_arrival(&mut self, address: u32, noinc: bool) -> Result<(), MbarrierError> {
        let m = self.find(address)?;
        if !noinc {
            if m.pending == MAX_COUNT {
                return Err(MbarrierError::Count {
                    found: u64::from(MAX_COUNT) + 1,
                });
            }
            m.pending += 1;
        }
        m.under_way += 1;
        Ok(())
    }

    /// The arrival announced by [`Mbarriers::begin_arrival`]. Returns whether it completed the phase.
    ///
    /// # Errors
    /// As [`Mbarriers::arrive`].
    pub fn end_arrival(&mut self, address: u32) -> Result<bool, MbarrierError> {
        let m = self.find(address)?;
        m.under_way = m.under_way.saturating_sub(1);
        Ok(self.arrive(address, Arrival::ONE)?.1)
    }

    /// `mbarrier.test_wait` or `try_wait` with a state: whether its phase is complete.
    ///
    /// # Errors
    /// If there is no `mbarrier`, or the state is too old to tell.
    pub fn is_complete(&mut self, address: u32, state: State) -> Result<bool, MbarrierError> {
        let m = self.find(address)?;
        if state.phase() > m.phase || state.phase() + 1 < m.phase {
            return Err(MbarrierError::StaleState {
                address,
                found: state.phase(),
                current: m.phase,
            });
        }
        Ok(state.phase() < m.phase)
    }

    /// `mbarrier.test_wait.parity` or `try_wait.parity`: whether the phase of that parity is complete, which is the
    /// current phase or the one before it.
    ///
    /// # Errors
    /// If there is no `mbarrier`.
    pub fn is_complete_parity(&mut self, address: u32, parity: u32) -> Result<bool, MbarrierError> {
        let m = self.find(address)?;
        Ok(m.phase & 1 != u64::from(parity & 1))
    }

    /// What a thread waits for, for a report of a deadlock.
    pub fn describe(&self, address: u32) -> String {
        self.list.iter().find(|m| m.address == address).map_or_else(
            || format!("mbarrier at {address:#x}, which is not initialised"),
            |m| {
                format!(
                    "mbarrier at {address:#x} in phase {} (parity {}), {} of {} arrivals and {} bytes missing",
                    m.phase,
                    m.phase & 1,
                    m.pending,
                    m.expected,
                    m.bytes
                )
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(count: u32) -> Mbarriers {
        let mut m = Mbarriers::new();
        m.init(8, count).unwrap();
        m
    }

    #[test]
    fn a_phase_ends_with_its_last_arrival_and_the_next_awaits_as_many() {
        let mut m = one(2);
        let (first, done) = m.arrive(8, Arrival::ONE).unwrap();
        assert!(!done);
        assert_eq!(first.pending_count(), 2);
        assert!(!m.is_complete_parity(8, 0).unwrap());
        assert!(
            m.is_complete_parity(8, 1).unwrap(),
            "the phase before the first counts as complete"
        );
        assert!(!m.is_complete(8, first).unwrap());
        assert!(m.arrive(8, Arrival::ONE).unwrap().1);
        assert!(m.is_complete(8, first).unwrap());
        assert!(m.is_complete_parity(8, 0).unwrap());
        assert!(!m.is_complete_parity(8, 1).unwrap());
        assert!(
            m.arrive(
                8,
                Arrival {
                    count: 2,
                    ..Arrival::ONE
                }
            )
            .unwrap()
            .1
        );
        assert_eq!(
            m.is_complete(8, first),
            Err(MbarrierError::StaleState {
                address: 8,
                found: 0,
                current: 2
            })
        );
    }

    #[test]
    fn bytes_hold_a_phase_open_whether_they_come_before_or_after_the_arrival() {
        let mut m = one(1);
        m.begin(8).unwrap();
        assert!(
            !m.arrive(
                8,
                Arrival {
                    expect_bytes: 100,
                    ..Arrival::ONE
                }
            )
            .unwrap()
            .1
        );
        assert!(!m.complete_bytes(8, 60).unwrap());
        assert!(m.end(8, 40).unwrap());
        m.begin(8).unwrap();
        assert!(
            !m.end(8, 100).unwrap(),
            "bytes that come early wait for the arrival"
        );
        assert!(
            m.arrive(
                8,
                Arrival {
                    expect_bytes: 100,
                    ..Arrival::ONE
                }
            )
            .unwrap()
            .1
        );
        m.expect_bytes(8, MAX_COUNT).unwrap();
        assert!(matches!(
            m.expect_bytes(8, 1),
            Err(MbarrierError::ByteCount {
                found: 0x10_0000,
                ..
            })
        ));
    }

    #[test]
    fn an_arrival_too_many_is_reported() {
        let mut m = one(1);
        m.expect_bytes(8, 4).unwrap();
        m.arrive(8, Arrival::ONE).unwrap();
        assert_eq!(
            m.arrive(8, Arrival::ONE),
            Err(MbarrierError::OverArrival {
                address: 8,
                pending: 0,
                found: 1
            })
        );
    }

    #[test]
    fn dropping_lowers_later_phases() {
        let mut m = one(2);
        m.arrive(
            8,
            Arrival {
                drop: true,
                ..Arrival::ONE
            },
        )
        .unwrap();
        assert!(m.arrive(8, Arrival::ONE).unwrap().1);
        assert!(m.arrive(8, Arrival::ONE).unwrap().1, "one is enough now");
        let no_complete = Arrival {
            no_complete: true,
            ..Arrival::ONE
        };
        assert_eq!(
            m.arrive(8, no_complete),
            Err(MbarrierError::WouldComplete { address: 8 })
        );
    }

    #[test]
    fn arrivals_of_copies_count_twice_unless_noinc() {
        let mut m = one(1);
        m.begin_arrival(8, false).unwrap();
        assert!(!m.end_arrival(8).unwrap());
        m.begin_arrival(8, true).unwrap();
        assert!(m.end_arrival(8).unwrap());
    }

    #[test]
    fn lifetimes_are_checked() {
        let mut m = Mbarriers::new();
        assert_eq!(
            m.arrive(8, Arrival::ONE),
            Err(MbarrierError::Uninitialised { address: 8 })
        );
        assert_eq!(m.init(4, 1), Err(MbarrierError::Misaligned { address: 4 }));
        assert_eq!(m.init(8, 0), Err(MbarrierError::Count { found: 0 }));
        m.init(8, 1).unwrap();
        assert_eq!(
            m.init(8, 1),
            Err(MbarrierError::Reinitialised { address: 8 })
        );
        assert_eq!(
            (
                m.overlapping(0, 8),
                m.overlapping(12, 4),
                m.overlapping(16, 4)
            ),
            (None, Some(8), None)
        );
        m.begin(8).unwrap();
        assert!(matches!(m.invalidate(8), Err(MbarrierError::InUse { .. })));
        m.end(8, 0).unwrap();
        m.invalidate(8).unwrap();
        assert!(m.is_complete_parity(8, 0).is_err());
        assert!(m.describe(8).contains("not initialised"));
    }
}
