//! A datatype as a plain list of elements, built by the definitions of MPI-5.0, 5.1.2, and nothing else.

use std::rc::Rc;

use proptest::prelude::*;

use crate::datatype::{self as d, Builtin, Datatype, Form, Name};

/// How a type is put together.
#[derive(Clone, Debug)]
pub enum Expr {
    Named(Name),
    Contiguous(i64, Box<Expr>),
    Vector(i64, i64, i64, Box<Expr>),
    Hvector(i64, i64, i64, Box<Expr>),
    Indexed(Vec<(i64, i64)>, Box<Expr>),
    Hindexed(Vec<(i64, i64)>, Box<Expr>),
    IndexedBlock(i64, Vec<i64>, Box<Expr>),
    HindexedBlock(i64, Vec<i64>, Box<Expr>),
    Struct(Vec<(i64, i64, Expr)>),
    Resized(i64, i64, Box<Expr>),
    Dup(Box<Expr>),
}

/// One item: elements in order, and bounds.
#[derive(Clone, Default)]
pub struct Model {
    pub elements: Vec<(i64, Builtin)>,
    pub lb: i64,
    pub ub: i64,
    pub marked: bool,
    pub align: i64,
}

impl Model {
    fn named(handle: Name) -> Model {
        let builtin = Builtin::named(handle);
        let ub = builtin.extent() as i64;
        Model { elements: vec![(0, builtin)], lb: 0, ub, marked: false, align: builtin.align() as i64 }
    }

    fn extent(&self) -> i64 {
        self.ub - self.lb
    }

    /// Copies of several models at displacements, in order.
    fn compose<'a>(copies: impl Iterator<Item = (i64, &'a Model)>) -> Model {
        let mut result = Model { align: 1, ..Model::default() };
        let (mut all, mut marks) = (Vec::new(), Vec::new());
        for (disp, model) in copies {
            if model.elements.is_empty() && !model.marked {
                continue;
            }
            result.elements.extend(model.elements.iter().map(|&(at, builtin)| (at + disp, builtin)));
            all.push((model.lb + disp, model.ub + disp));
            if model.marked {
                marks.push((model.lb + disp, model.ub + disp));
            }
            result.align = result.align.max(model.align);
        }
        result.marked = !marks.is_empty();
        let spans = if result.marked { marks } else { all };
        result.lb = spans.iter().map(|span| span.0).min().unwrap_or(0);
        result.ub = spans.iter().map(|span| span.1).max().unwrap_or(0);
        result
    }

    fn blocks(&self, blocks: &[(i64, i64)]) -> Model {
        let copies = blocks.iter().flat_map(|&(disp, n)| (0..n).map(move |i| (disp + i * self.extent(), self)));
        Model::compose(copies)
    }

    /// The offset of each packed byte of `count` items.
    pub fn bytes(&self, count: usize) -> Vec<i64> {
        let mut list = Vec::new();
        for item in 0..count as i64 {
            for (at, builtin) in &self.elements {
                let start = at + item * self.extent();
                match builtin.index {
                    None => list.extend((0..builtin.size() as i64).map(|i| start + i)),
                    Some(index) => {
                        list.extend((0..builtin.repr.size() as i64).map(|i| start + i));
                        let start = start + builtin.index_offset() as i64;
                        list.extend((0..index.size() as i64).map(|i| start + i));
                    }
                }
            }
        }
        list
    }
}

impl Expr {
    pub fn model(&self) -> Model {
        match self {
            Expr::Named(handle) => Model::named(*handle),
            Expr::Contiguous(n, old) => old.model().blocks(&[(0, *n)]),
            Expr::Vector(n, length, stride, old) => {
                let old = old.model();
                old.blocks(&(0..*n).map(|i| (i * stride * old.extent(), *length)).collect::<Vec<_>>())
            }
            Expr::Hvector(n, length, stride, old) => {
                old.model().blocks(&(0..*n).map(|i| (i * stride, *length)).collect::<Vec<_>>())
            }
            Expr::Indexed(blocks, old) => {
                let old = old.model();
                old.blocks(&blocks.iter().map(|&(n, disp)| (disp * old.extent(), n)).collect::<Vec<_>>())
            }
            Expr::Hindexed(blocks, old) => {
                old.model().blocks(&blocks.iter().map(|&(n, disp)| (disp, n)).collect::<Vec<_>>())
            }
            Expr::IndexedBlock(n, disps, old) => {
                let old = old.model();
                old.blocks(&disps.iter().map(|disp| (disp * old.extent(), *n)).collect::<Vec<_>>())
            }
            Expr::HindexedBlock(n, disps, old) => {
                old.model().blocks(&disps.iter().map(|disp| (*disp, *n)).collect::<Vec<_>>())
            }
            Expr::Struct(members) => {
                let models: Vec<Model> = members.iter().map(|member| member.2.model()).collect();
                let copies = members
                    .iter()
                    .zip(&models)
                    .flat_map(|(&(n, disp, _), model)| (0..n).map(move |i| (disp + i * model.extent(), model)));
                let mut result = Model::compose(copies);
                while !result.marked && result.extent() % result.align != 0 {
                    result.ub += 1;
                }
                result
            }
            Expr::Resized(lb, extent, old) => Model { lb: *lb, ub: lb + extent, marked: true, ..old.model() },
            Expr::Dup(old) => old.model(),
        }
    }

    pub fn build(&self, form: Form) -> Rc<Datatype> {
        let split = |blocks: &[(i64, i64)]| blocks.iter().copied().unzip::<i64, i64, Vec<_>, Vec<_>>();
        match self {
            Expr::Named(handle) => d::predefined(*handle).clone(),
            Expr::Contiguous(n, old) => d::contiguous(form, *n, &old.build(form)).unwrap(),
            Expr::Vector(n, length, stride, old) => d::vector(form, *n, *length, *stride, &old.build(form)).unwrap(),
            Expr::Hvector(n, length, stride, old) => d::hvector(form, *n, *length, *stride, &old.build(form)).unwrap(),
            Expr::Indexed(blocks, old) => {
                let (lengths, disps) = split(blocks);
                d::indexed(form, &lengths, &disps, &old.build(form)).unwrap()
            }
            Expr::Hindexed(blocks, old) => {
                let (lengths, disps) = split(blocks);
                d::hindexed(form, &lengths, &disps, &old.build(form)).unwrap()
            }
            Expr::IndexedBlock(n, disps, old) => d::indexed_block(form, *n, disps, &old.build(form)).unwrap(),
            Expr::HindexedBlock(n, disps, old) => d::hindexed_block(form, *n, disps, &old.build(form)).unwrap(),
            Expr::Struct(members) => {
                let lengths: Vec<i64> = members.iter().map(|member| member.0).collect();
                let disps: Vec<i64> = members.iter().map(|member| member.1).collect();
                let types: Vec<_> = members.iter().map(|member| member.2.build(form)).collect();
                d::structure(form, &lengths, &disps, &types).unwrap()
            }
            Expr::Resized(lb, extent, old) => d::resized(form, *lb, *extent, &old.build(form)).unwrap(),
            Expr::Dup(old) => d::dup(&old.build(form)),
        }
    }
}

/// Random nested types of moderate size.
pub fn any_expr() -> impl Strategy<Value = Expr> {
    let named = prop::sample::select(vec![
        Name::MPI_CHAR,
        Name::MPI_SHORT,
        Name::MPI_INT,
        Name::MPI_DOUBLE,
        Name::MPI_C_DOUBLE_COMPLEX,
        Name::MPI_LONG_DOUBLE,
        Name::MPI_FLOAT_INT,
        Name::MPI_DOUBLE_INT,
        Name::MPI_SHORT_INT,
        Name::MPI_LONG_DOUBLE_INT,
        Name::MPI_BYTE,
    ]);
    let leaf = named.prop_map(Expr::Named);
    leaf.prop_recursive(3, 24, 4, |inner| {
        let old = inner.clone().prop_map(Box::new);
        let blocks = |disp: std::ops::Range<i64>| prop::collection::vec((0..4i64, disp), 0..4);
        let disps = |disp: std::ops::Range<i64>| prop::collection::vec(disp, 0..5);
        prop_oneof![
            (0..5i64, old.clone()).prop_map(|(n, old)| Expr::Contiguous(n, old)),
            (0..4i64, 0..3i64, -4..5i64, old.clone()).prop_map(|(n, l, s, old)| Expr::Vector(n, l, s, old)),
            (0..4i64, 0..3i64, -40..40i64, old.clone()).prop_map(|(n, l, s, old)| Expr::Hvector(n, l, s, old)),
            (blocks(-4..8), old.clone()).prop_map(|(blocks, old)| Expr::Indexed(blocks, old)),
            (blocks(-50..90), old.clone()).prop_map(|(blocks, old)| Expr::Hindexed(blocks, old)),
            (0..3i64, disps(-4..8), old.clone()).prop_map(|(n, disps, old)| Expr::IndexedBlock(n, disps, old)),
            (0..3i64, disps(-50..90), old.clone()).prop_map(|(n, disps, old)| Expr::HindexedBlock(n, disps, old)),
            prop::collection::vec((0..3i64, -30..100i64, inner), 0..4).prop_map(Expr::Struct),
            (-20..20i64, 0..60i64, old.clone()).prop_map(|(lb, extent, old)| Expr::Resized(lb, extent, old)),
            old.prop_map(Expr::Dup),
        ]
    })
}
