//! The places of steps on a page: sections, the card of each step, and the matrices that cards share.

use crate::formulas::equation::EquationPart;
use crate::output::step_groups::StepGroup;
use crate::program::operation::{Operation, StepId};
use crate::traces::trace_steps::{Trace, TraceStep};
use std::collections::HashMap;

/// A step of the page.
pub(crate) struct PageStep<'a> {
    /// The step in the page's program.
    pub(crate) step: &'a TraceStep,
    /// The step as it is shown at the start: its twin in the trace, if that has the step.
    pub(crate) shown: &'a TraceStep,
    /// The position in the trace, from 1; `None` for a step that the reader can switch on.
    pub(crate) number: Option<usize>,
    pub(crate) group: StepGroup,
}

impl PageStep<'_> {
    /// Returns the number, which changes when the reader switches steps on and off.
    pub(crate) fn number_html(&self) -> String {
        let number = self.number.map_or(String::new(), |number| format!("{number}. "));
        format!("<span class=\"k\" data-s=\"{}\">{number}</span>", self.step.id)
    }

    pub(crate) fn is_given(&self) -> bool {
        self.step.operation == Operation::Given
    }
}

/// The steps of a page, and their places.
pub(crate) struct PageLayout<'a> {
    pub(crate) steps: Vec<PageStep<'a>>,
    /// IDs of the trace's steps in the page's program.
    pub(crate) page_ids: HashMap<StepId, StepId>,
    /// Positions of the displayed steps by their ID in the page's program.
    pub(crate) positions: HashMap<StepId, usize>,
    /// The step that shows a given matrix among its operands: the first one that reads it.
    pub(crate) readers: HashMap<StepId, StepId>,
    /// True if the page recomputes its numbers.
    pub(crate) recomputes: bool,
}

impl<'a> PageLayout<'a> {
    pub(crate) fn new(trace: &'a Trace, recomputes: bool) -> PageLayout<'a> {
        let [shown, hidden] = trace.page_steps();
        let key = |step: &TraceStep| (step.kind, step.quantity, step.head, step.symbol.clone());
        let own: HashMap<_, _> = trace.steps.iter().enumerate().map(|(i, step)| (key(step), (i + 1, step))).collect();
        let of_page: HashMap<_, StepId> = shown.iter().chain(hidden).map(|step| (key(step), step.id)).collect();
        let all = trace.steps.iter().chain(&trace.hidden_steps);
        let page_ids = all.filter_map(|step| Some((step.id, *of_page.get(&key(step))?))).collect();
        let steps: Vec<PageStep<'_>> = shown
            .iter()
            .map(|step| {
                let twin = own.get(&key(step));
                PageStep {
                    step,
                    shown: twin.map_or(step, |(_, twin)| twin),
                    number: twin.map(|(number, _)| *number),
                    group: StepGroup::of(step.kind, step.quantity),
                }
            })
            .collect();
        let positions: HashMap<StepId, usize> = steps.iter().enumerate().map(|(i, of)| (of.step.id, i)).collect();
        let mut layout = PageLayout { steps, page_ids, positions, readers: HashMap::new(), recomputes };
        let mut readers = HashMap::new();
        for of in layout.steps.iter().filter(|of| of.number.is_some() && !of.is_given()) {
            for part in &of.shown.equation {
                let EquationPart::Operand { id, .. } = part else { continue };
                let operand = layout.page_id(of, *id);
                if layout.step(operand).is_some_and(PageStep::is_given) {
                    readers.entry(operand).or_insert(of.step.id);
                }
            }
        }
        layout.readers = readers;
        layout
    }

    /// Returns the displayed step with this ID in the page's program.
    pub(crate) fn step(&self, id: StepId) -> Option<&PageStep<'a>> {
        self.positions.get(&id).map(|&at| &self.steps[at])
    }

    /// Returns an operand's ID in the page's program.
    pub(crate) fn page_id(&self, of: &PageStep<'_>, operand: StepId) -> StepId {
        match of.number {
            Some(_) => self.page_ids.get(&operand).copied().unwrap_or(operand),
            None => operand,
        }
    }

    /// Returns the steps in sections of neighbors. A given matrix belongs to the section of its reader.
    pub(crate) fn sections(&self) -> Vec<(StepGroup, Vec<&PageStep<'a>>)> {
        let mut sections: Vec<(StepGroup, Vec<&PageStep<'a>>)> = Vec::new();
        let mut given: Vec<&PageStep<'a>> = Vec::new();
        for of in &self.steps {
            if of.is_given() && self.readers.contains_key(&of.step.id) {
                given.push(of);
                continue;
            }
            match sections.last_mut() {
                Some((group, steps)) if *group == of.group => steps.push(of),
                _ => sections.push((of.group, vec![of])),
            }
        }
        let mut by_reader: HashMap<StepId, Vec<&PageStep<'a>>> = HashMap::new();
        for of in given {
            by_reader.entry(self.readers[&of.step.id]).or_default().push(of);
        }
        for (_, steps) in &mut sections {
            let with_given =
                steps.iter().flat_map(|of| by_reader.remove(&of.step.id).unwrap_or_default().into_iter().chain([*of]));
            *steps = with_given.collect();
        }
        sections
    }
}
