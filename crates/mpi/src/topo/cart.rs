//! Cartesian topologies (MPI-5.0, 8.5.1, 8.5.4 to 8.5.8): row-major grids.

use super::{Topology, cart_of, place};
use crate::comm::Comm;
use crate::constructors;
use crate::cs::Section;
use crate::group::Group;
use crate::status::{PROC_NULL, UNDEFINED};
use base::{Result, ensure};
use std::rc::Rc;

/// A grid of processes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cart {
    /// Processes in each dimension.
    pub dims: Vec<i32>,
    /// Whether a dimension is a ring.
    pub periods: Vec<bool>,
}

impl Cart {
    /// A grid; `periods` is as long as `dims`.
    pub fn new(dims: &[i32], periods: &[bool]) -> Result<Cart> {
        ensure!(dims.iter().all(|d| *d > 0), ERR_DIMS, "a dimension is not positive");
        let size = dims.iter().try_fold(1i32, |product, d| product.checked_mul(*d));
        ensure!(size.is_some(), ERR_DIMS, "the grid has too many processes");
        Ok(Cart { dims: dims.to_vec(), periods: periods.to_vec() })
    }

    /// Number of dimensions.
    pub fn ndims(&self) -> usize {
        self.dims.len()
    }

    /// Number of processes.
    pub fn size(&self) -> i32 {
        self.dims.iter().product()
    }

    /// `MPI_Cart_coords`.
    pub fn coords(&self, rank: i32) -> Result<Vec<i32>> {
        ensure!((0..self.size()).contains(&rank), ERR_RANK, "the rank is not in the grid");
        let mut coords = vec![0; self.ndims()];
        let mut rest = rank;
        for (coord, dim) in coords.iter_mut().zip(&self.dims).rev() {
            *coord = rest % dim;
            rest /= dim;
        }
        Ok(coords)
    }

    /// `MPI_Cart_rank`. Coordinates outside of a dimension wrap around if it is periodic.
    pub fn rank(&self, coords: &[i32]) -> Result<i32> {
        ensure!(coords.len() >= self.ndims(), ERR_ARG, "too few coordinates");
        let mut rank = 0;
        for ((&coord, &dim), &periodic) in coords.iter().zip(&self.dims).zip(&self.periods) {
            ensure!(periodic || (0..dim).contains(&coord), ERR_ARG, "a coordinate is outside of the grid");
            rank = rank * dim + coord.rem_euclid(dim);
        }
        Ok(rank)
    }

    /// The process `distance` steps from `rank` along a dimension.
    fn along(&self, rank: i32, dimension: usize, distance: i64) -> i32 {
        let stride: i32 = self.dims[dimension + 1..].iter().product();
        let dim = i64::from(self.dims[dimension]);
        let coord = i64::from(rank / stride) % dim;
        let target = coord + distance;
        if !self.periods[dimension] && !(0..dim).contains(&target) {
            return PROC_NULL;
        }
        rank + (target.rem_euclid(dim) - coord) as i32 * stride
    }

    /// `MPI_Cart_shift`: source and destination of a shift.
    pub fn shift(&self, rank: i32, direction: i32, displacement: i32) -> Result<(i32, i32)> {
        ensure!((0..self.ndims() as i32).contains(&direction), ERR_DIMS, "the grid has no such dimension");
        let (dimension, displacement) = (direction as usize, i64::from(displacement));
        Ok((self.along(rank, dimension, -displacement), self.along(rank, dimension, displacement)))
    }

    /// For each dimension the process before and the one after.
    pub fn neighbors(&self, rank: i32) -> Vec<i32> {
        (0..self.ndims()).flat_map(|d| [self.along(rank, d, -1), self.along(rank, d, 1)]).collect()
    }

    /// `MPI_Cart_sub`: colour and key of a process, and its part of the grid.
    fn sub(&self, rank: i32, remain: &[bool]) -> Result<(i32, i32, Cart)> {
        ensure!(remain.len() >= self.ndims(), ERR_ARG, "too few dimensions");
        let coords = self.coords(rank)?;
        let number = |kept: bool| {
            let picked = (0..self.ndims()).filter(|&d| remain[d] == kept);
            picked.fold(0, |number, d| number * self.dims[d] + coords[d])
        };
        let kept = (0..self.ndims()).filter(|&d| remain[d]);
        let (dims, periods) = kept.map(|d| (self.dims[d], self.periods[d])).unzip();
        Ok((number(false), number(true), Cart { dims, periods }))
    }
}

/// `MPI_Cart_create`; none for processes that the grid has no room for.
pub fn create(
    cs: &mut Section,
    comm: &Rc<Comm>,
    dims: &[i32],
    periods: &[bool],
    reorder: bool,
) -> Result<Option<Rc<Comm>>> {
    ensure!(!comm.is_inter(), ERR_COMM, "an intra-communicator is needed");
    let cart = Cart::new(dims, periods)?;
    ensure!(cart.size() <= comm.size(), ERR_ARG, "the grid is larger than the communicator");
    let group = group_of(cs, comm, &cart, reorder)?;
    let new = constructors::from_members(cs, comm, &group)?;
    if let Some(new) = &new {
        new.set_topology(Rc::new(Topology::Cart(cart)));
    }
    Ok(new)
}

/// The processes of the grid in the order of their new ranks.
fn group_of(cs: &Section, comm: &Comm, cart: &Cart, reorder: bool) -> Result<Rc<Group>> {
    if !reorder {
        return comm.group.include(cs, &(0..cart.size()).collect::<Vec<i32>>());
    }
    comm.group.include(cs, &place::grid(&cart.dims, &place::nodes(comm, cart.size())))
}

/// `MPI_Cart_map`: the rank that this process would get.
pub fn map(cs: &Section, comm: &Comm, dims: &[i32], periods: &[bool]) -> Result<i32> {
    let cart = Cart::new(dims, periods)?;
    ensure!(cart.size() <= comm.size(), ERR_ARG, "the grid is larger than the communicator");
    let group = group_of(cs, comm, &cart, true)?;
    Ok(group.rank_of(comm.group.peer(comm.rank)).unwrap_or(UNDEFINED))
}

/// `MPI_Cart_sub`: the part of the grid in which the dimensions that don't remain are fixed.
pub fn sub(cs: &mut Section, comm: &Rc<Comm>, remain: &[bool]) -> Result<Rc<Comm>> {
    let (colour, key, part) = cart_of(comm)?.sub(comm.rank, remain)?;
    let Some(new) = constructors::split(cs, comm, colour, key)? else {
        base::fail!(ERR_INTERN, "a part of the grid lost this process");
    };
    new.set_topology(Rc::new(Topology::Cart(part)));
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Class;
    use proptest::prelude::*;

    fn cart(dims: &[i32], periods: &[bool]) -> Cart {
        Cart::new(dims, periods).unwrap()
    }

    proptest! {
        #[test]
        fn ranks_and_coordinates_are_inverse(dims in proptest::collection::vec(1..5, 0..5)) {
            let c = cart(&dims, &vec![false; dims.len()]);
            for rank in 0..c.size() {
                prop_assert_eq!(c.rank(&c.coords(rank).unwrap()), Ok(rank));
            }
            prop_assert_eq!(c.coords(c.size()).unwrap_err().class, Class::ERR_RANK);
        }

        #[test]
        fn shifts_agree_with_coordinates(
            shape in proptest::collection::vec((1..5, any::<bool>()), 1..4), pick: u32, direction in 0..4usize, by in -7..7
        ) {
            let (dims, periods): (Vec<i32>, Vec<bool>) = shape.into_iter().unzip();
            let c = cart(&dims, &periods);
            let rank = (pick % c.size() as u32) as i32;
            let direction = direction % dims.len();
            let at = |by: i32| {
                let mut coords = c.coords(rank).unwrap();
                coords[direction] += by;
                c.rank(&coords).unwrap_or(PROC_NULL)
            };
            prop_assert_eq!(c.shift(rank, direction as i32, by), Ok((at(-by), at(by))));
        }

        #[test]
        fn sub_grids_partition_the_grid(dims in proptest::collection::vec(1..4, 1..4), picks: u8) {
            let c = cart(&dims, &vec![true; dims.len()]);
            let remain: Vec<bool> = (0..dims.len()).map(|i| picks >> i & 1 == 1).collect();
            let mut seen = std::collections::HashSet::new();
            for rank in 0..c.size() {
                let (colour, key, part) = c.sub(rank, &remain).unwrap();
                prop_assert!(key < part.size());
                prop_assert!(colour < c.size() / part.size());
                prop_assert!(seen.insert((colour, key)));
            }
        }
    }

    #[test]
    fn wrong_arguments() {
        assert_eq!(Cart::new(&[0], &[false]).unwrap_err().class, Class::ERR_DIMS);
        assert_eq!(Cart::new(&[1 << 20, 1 << 20], &[false; 2]).unwrap_err().class, Class::ERR_DIMS);
        let c = cart(&[2, 3], &[true, false]);
        assert_eq!(c.rank(&[-1, 2]), Ok(5));
        assert_eq!(c.rank(&[0, 3]).unwrap_err().class, Class::ERR_ARG);
        assert_eq!(c.shift(0, 2, 1).unwrap_err().class, Class::ERR_DIMS);
        assert_eq!(cart(&[], &[]).size(), 1);
        assert_eq!(cart(&[], &[]).rank(&[]), Ok(0));
    }
}
