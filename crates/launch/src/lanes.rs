//! `ferrule info --lanes`: the lanes of a pair as the settings have them, and how the packets of each class are marked.

use protocol::lanes::marks::{Mark, Marks};
use protocol::lanes::{Class, LANE_SMALL_MAX, LanePlan, Policy};
use serde_json::{Value, json};
use std::fmt::Write;

/// The table, or, with `json`, an object: `plan`, `policy`, `lanes` (of a pair), `small_max_bytes`, `table` (one entry for each lane: `lane`, `classes` that it may
/// have, `dscp` and `priority` of each), and `classes` (every class there is, with its mark). `dscp` and `priority` are null where the kernel decides. An error names
/// the setting that can't be read.
pub fn describe(json: bool) -> Result<String, String> {
    let (plan, marks) = (LanePlan::configured()?, Marks::configured()?);
    Ok(if json { format!("{:#}\n", as_json(&plan, &marks)) } else { as_text(&plan, &marks) })
}

/// The classes that a lane may have: with a share for each pair, all shares.
fn classes_of(plan: &LanePlan, lane: usize) -> Vec<Class> {
    match plan.policy() {
        Policy::DistributeConnection => plan.classes(),
        _ => plan.class(lane, 0).into_iter().collect(),
    }
}

fn as_json(plan: &LanePlan, marks: &Marks) -> Value {
    let class = |class: Class| {
        let Mark { dscp, priority } = marks.of(class);
        json!({"class": class.to_string(), "dscp": dscp, "priority": priority})
    };
    let lane = |lane: usize| json!({"lane": lane, "classes": classes_of(plan, lane).into_iter().map(class).collect::<Vec<_>>()});
    json!({
        "plan": plan.to_string(),
        "policy": plan.policy().to_string(),
        "lanes": plan.lanes(),
        "small_max_bytes": LANE_SMALL_MAX.value(),
        "table": (0..plan.lanes()).map(lane).collect::<Vec<_>>(),
        "classes": Class::all().map(class).collect::<Vec<_>>(),
    })
}

fn as_text(plan: &LanePlan, marks: &Marks) -> String {
    let mut text = format!("lanes of a pair over a network: {plan}\n");
    let in_lanes = (0..plan.lanes())
        .flat_map(|lane| classes_of(plan, lane).into_iter().map(move |class| (lane.to_string(), class)));
    let mut rows: Vec<(String, Class)> = in_lanes.collect();
    if rows.is_empty() {
        text.push_str(
            "All traffic of a pair goes over one lane, whose packets aren't marked. The classes that lanes may have:\n",
        );
        rows = Class::all().map(|class| ("-".into(), class)).collect();
    }
    text.push_str("LANE  CLASS        DSCP  SO_PRIORITY\n");
    for (lane, class) in rows {
        let Mark { dscp, priority } = marks.of(class);
        let number = |value: Option<u32>| value.map_or("-".into(), |value| value.to_string());
        let (name, dscp, priority) = (class.to_string(), number(dscp.map(u32::from)), number(priority));
        let _ = writeln!(text, "{lane:>4}  {name:12} {dscp:>4}  {priority:>11}");
    }
    text.push_str("Settings: FERRULE_LANES, FERRULE_LANE_POLICY, FERRULE_LANE_DSCP, FERRULE_LANE_PRIORITY (ferrule info --config).\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(lanes: &str, policy: &str) -> (LanePlan, Marks) {
        (LanePlan::parse(lanes, policy).unwrap(), Marks::parse("", "").unwrap())
    }

    #[test]
    fn every_lane_has_its_classes() {
        let (segregate, marks) = plan("3", "segregate");
        let seen = as_json(&segregate, &marks);
        assert_eq!((&seen["plan"], &seen["lanes"]), (&json!("3:segregate"), &json!(3)));
        assert_eq!(seen["table"][0], json!({"lane": 0, "classes": [{"class": "latency", "dscp": 46, "priority": 6}]}));
        assert_eq!(seen["table"][2]["classes"][0]["class"], json!("bulk"));
        assert_eq!(seen["classes"].as_array().map(Vec::len), Some(24));
        let (shares, marks) = plan("4", "distribute:connection");
        assert_eq!(as_json(&shares, &marks)["table"][0]["classes"].as_array().map(Vec::len), Some(4));
    }

    #[test]
    fn the_table_has_a_row_for_each_lane() {
        let (segregate, marks) = plan("2", "segregate");
        let seen = as_text(&segregate, &marks);
        assert!(
            seen.contains("\n   0  latency        46            6\n   1  bulk            8            2\n"),
            "{seen}"
        );
        let (single, _) = plan("", "");
        let seen = as_text(&single, &Marks::parse("off", "off").unwrap());
        assert!(seen.contains("\n   -  share15         -            -\n"), "{seen}");
    }
}
