//! Schedules as bytes, run by somebody who only has `get` and `put`: every third case of the other tests.

use super::super::portable::regions::{Access, Region};
use super::super::portable::remote::{self, Memory};
use super::super::portable::{Channel, Identity, Portable};
use super::*;
use base::Class;

/// The memory of all simulated ranks, which is this process's, too. Only what a schedule lists is touched.
struct Own(Vec<[Vec<Region>; 2]>);

impl Own {
    fn of(all: &[Portable]) -> Vec<[Vec<Region>; 2]> {
        all.iter().map(|one| [Access::Read, Access::Write].map(|access| one.regions(access).to_vec())).collect()
    }

    fn check(&self, owner: usize, address: u64, len: usize, accesses: &[Access]) {
        let range = Region { from: address, to: address + len as u64 };
        let listed = |access: &Access| self.0[owner][*access as usize].iter().any(|region| region.contains(&range));
        assert!(accesses.iter().any(listed), "{range:?} is not listed");
    }
}

impl Memory for Own {
    fn get(&mut self, owner: usize, address: u64, into: &mut [u8]) -> Result {
        self.check(owner, address, into.len(), &[Access::Read, Access::Write]);
        let from = std::ptr::with_exposed_provenance::<u8>(address as usize);
        // SAFETY: a step names it, and the tests keep their memory until the end.
        unsafe { std::ptr::copy(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn put(&mut self, owner: usize, address: u64, from: &[u8]) -> Result {
        self.check(owner, address, from.len(), &[Access::Write]);
        let into = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        // SAFETY: as in `get`.
        unsafe { std::ptr::copy(from.as_ptr(), into, from.len()) };
        Ok(())
    }
}

fn portable(builder: &Builder, id: usize, sizes: (usize, usize)) -> Portable {
    let channels = [Channel { context: 7, tag: 3 }, Channel { context: 8, tag: i32::MIN }];
    let identity = Identity { process: 100 + id as u64, channels, round: 0 };
    let base = base_of(id, sizes);
    let process_of = |via: Via, peer: u32| 100 + (base[via as usize] + peer as usize) as u64;
    let made = Portable::new(builder.schedule(), builder.objects(), identity, process_of).unwrap();
    let bytes = made.encode();
    let read = Portable::decode(&bytes).unwrap();
    assert_eq!(read, made);
    assert!(Portable::decode(&bytes[..bytes.len() - 1]).is_err());
    read
}

/// False if a function of the program is needed.
pub fn execute(builders: &[Builder], sizes: (usize, usize)) -> bool {
    let all: Vec<Portable> = builders.iter().enumerate().map(|(id, b)| portable(b, id, sizes)).collect();
    let regions = Own::of(&all);
    if !all.iter().all(Portable::runs_anywhere) {
        assert_eq!(remote::run(all, &mut Own(regions)).unwrap_err().class, Class::ERR_OP);
        return false;
    }
    assert!(remote::run(all, &mut Own(regions)).unwrap().iter().all(Result::is_ok));
    true
}

#[test]
fn a_set_that_lacks_a_process_is_refused() {
    let mut builder = Builder::default();
    builder.send_empty(&CommView::new(0, 2).team(), 1);
    let alone = vec![portable(&builder, 0, (2, 0))];
    assert_eq!(remote::run(alone, &mut Own(Vec::new())).unwrap()[0].unwrap_err().class, Class::ERR_INTERN);
}

#[test]
fn a_set_that_waits_for_itself_ends() {
    let waiting = |id: usize| {
        let mut builder = Builder::default();
        builder.recv_empty(&CommView::new(id, 2).team(), 1 - id);
        builder.fence();
        portable(&builder, id, (2, 0))
    };
    let both = vec![waiting(0), waiting(1)];
    assert_eq!(remote::run(both, &mut Own(Vec::new())).unwrap_err().class, Class::ERR_INTERN);
}
