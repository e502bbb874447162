//! Requirements for every tool of the family.

use testkit::{Workspace, check_family};

#[test]
fn every_tool_has_a_good_name_schema_and_example() {
    check_family(&tools_files::tools(), Workspace::new);
}

/// Descriptions and schemas are sent with every conversation: all tools together may take 3,000 tokens of four characters.
#[test]
fn the_family_keeps_its_part_of_the_catalogue() {
    let size = |tool: &std::sync::Arc<dyn tool::AnyTool>| {
        let spec = tool.spec();
        let length = spec.name.len()
            + spec.description.len()
            + tool.input_schema().to_string().len()
            + tool.output_schema().to_string().len();
        println!("{}: {length}", spec.name);
        length
    };
    let total: usize = tools_files::tools().iter().map(size).sum();
    println!("total: {total}");
    assert!(total <= 12_000, "{total} characters");
}
