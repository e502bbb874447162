//! Domain `Input`: the mouse and the keyboard.

use serde::Serialize;

/// Moves the mouse, presses or releases a button, or turns the wheel. Answers once the page has
/// handled the event.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DispatchMouseEvent {
    /// Kind of event.
    #[serde(rename = "type")]
    pub kind: MouseEventKind,
    /// Horizontal position in the viewport of the page.
    pub x: f64,
    /// Vertical position in the viewport of the page.
    pub y: f64,
    /// Keys that are held: 1 for alt, 2 for control, 4 for meta, 8 for shift, added up.
    pub modifiers: u8,
    /// Button that is pressed or released.
    pub button: MouseButton,
    /// Buttons that are held: 1 for the left, 2 for the right, 4 for the middle one, added up.
    pub buttons: u8,
    /// Number of the click: 2 for the second of a double click.
    pub click_count: u8,
    /// Horizontal turn of the wheel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta_x: Option<f64>,
    /// Vertical turn of the wheel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta_y: Option<f64>,
}
command!(DispatchMouseEvent, "Input.dispatchMouseEvent");

/// Event of a mouse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MouseEventKind {
    /// The mouse moves.
    #[default]
    MouseMoved,
    /// A button is pressed.
    MousePressed,
    /// A button is released.
    MouseReleased,
    /// The wheel turns.
    MouseWheel,
}

/// Button of a mouse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MouseButton {
    /// No button.
    #[default]
    None,
    /// Left button.
    Left,
    /// Middle button.
    Middle,
    /// Right button.
    Right,
}

/// Presses or releases a key. Answers once the page has handled the event.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DispatchKeyEvent {
    /// Kind of event.
    #[serde(rename = "type")]
    pub kind: KeyEventKind,
    /// Keys that are held, as in [`DispatchMouseEvent::modifiers`].
    pub modifiers: u8,
    /// Text that the key types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Name of the key, for example `Enter`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Name of the place on the keyboard, for example `KeyA`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Number of the key on Windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows_virtual_key_code: Option<u16>,
    /// Commands of an editor, for example `selectAll`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}
command!(DispatchKeyEvent, "Input.dispatchKeyEvent");

/// Event of a keyboard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyEventKind {
    /// A key is pressed and types its text.
    #[default]
    KeyDown,
    /// A key is released.
    KeyUp,
    /// A key is pressed and types nothing.
    RawKeyDown,
    /// A text is typed without a key.
    Char,
}

/// Inserts a text where the page has its focus, as an input method would.
#[derive(Debug, Clone, Serialize)]
pub struct InsertText {
    /// The text.
    pub text: String,
}
command!(InsertText, "Input.insertText");
