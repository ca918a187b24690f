use oscar_model::quantity::Quantity;

/// An amount: its canonical spelling is the same amount, and arithmetic agrees with order.
pub fn quantity(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(quantity) = Quantity::parse(text) else { return };
    assert_eq!(quantity.as_str(), text);
    let canonical = quantity.canonical();
    let again = Quantity::parse(&canonical).unwrap_or_else(|| panic!("{text} -> {canonical} is no quantity"));
    assert_eq!(again, quantity, "{text} -> {canonical}");
    assert_eq!(again.canonical(), canonical, "{text}");
    assert!(!canonical.contains('.'), "{text} -> {canonical}");

    let zero = Quantity::from_millis(0);
    assert_eq!(quantity.is_negative(), quantity < zero, "{text}");
    assert_eq!(quantity.is_zero(), quantity == zero, "{text}");
    assert!(quantity.minus(&quantity).is_zero(), "{text}");
    assert_eq!(quantity.plus(&zero), quantity, "{text}");
    assert!(quantity.plus(&Quantity::from_bytes(1)) >= quantity, "{text}");

    // Rounded up, and by less than one.
    assert!(Quantity::from_bytes(quantity.units()) >= quantity, "{text}");
    let capped = quantity.units() <= -i64::MAX;
    assert!(capped || Quantity::from_bytes(quantity.units() - 1) < quantity, "{text}");
    let capped = matches!(quantity.millis(), i64::MIN | i64::MAX);
    assert!(capped || Quantity::from_millis(quantity.millis()) >= quantity, "{text}");
    assert!(capped || Quantity::from_millis(quantity.millis() - 1) < quantity, "{text}");
}
